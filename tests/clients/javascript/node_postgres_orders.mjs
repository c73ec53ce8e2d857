import pg from 'pg'

const client = new pg.Client() // uses PGHOST, PGDATABASE etc.
await client.connect()

const insert = 'INSERT INTO orders (item) VALUES ($1) RETURNING id'
const { rows: [tea] } = await client.query(insert, ['tea'])
console.log(tea.id) // an ID
console.log(typeof tea.id) // string
console.log(JSON.stringify({ id: '1541815603606036481' })) // {"id":"1541815603606036481"}
console.log(JSON.parse('{"id": 1541815603606036481}').id) // 1541815603606036500

// To compare or calculate, use a BigInt. You can pass it to queries as it is, but not to JSON.stringify().
pg.types.setTypeParser(pg.types.builtins.INT8, BigInt)
const { rows: [milk] } = await client.query(insert, ['milk'])
console.log(typeof milk.id) // bigint
console.log(milk.id > BigInt(tea.id)) // true
const { rows: [found] } = await client.query('SELECT item FROM orders WHERE id = $1', [milk.id])
console.log(found.item) // milk
console.log(milk.id.toString()) // an ID

await client.end()
