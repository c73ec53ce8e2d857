import pg from 'pg'

const client = new pg.Client() // uses PGHOST, PGDATABASE etc.
await client.connect()

// Three IDs of one millisecond, as a web service returns them.
const ids = ['1541815603606036481', '1541815603606036482', '1541815603606036483']
const asJson = async (type) => {
  const query = `SELECT json_agg(id)::text AS json FROM unnest($1::${type}[]) AS id`
  return (await client.query(query, [ids])).rows[0].json
}
const numbers = await asJson('bigint')
console.log(numbers) // [1541815603606036481, 1541815603606036482, 1541815603606036483]
console.log(JSON.parse(numbers)) // [ 1541815603606036500, 1541815603606036500, 1541815603606036500 ]

const strings = await asJson('snowflake')
console.log(strings) // ["1541815603606036481", "1541815603606036482", "1541815603606036483"]
console.log(new Set(JSON.parse(numbers)).size, new Set(JSON.parse(strings)).size) // 1 3

await client.end()
