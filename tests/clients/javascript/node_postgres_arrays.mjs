import pg from 'pg'

const client = new pg.Client() // uses PGHOST, PGDATABASE etc.
await client.connect()

const query = `SELECT array_agg(id ORDER BY id) AS ids
               FROM unnest('{1541815603606036481,1541815603606036482}'::snowflake[]) AS id`
const { rows: [before] } = await client.query(query)
console.log(before.ids) // {1541815603606036481,1541815603606036482}

const find = "SELECT typarray AS oid FROM pg_type WHERE oid = 'snowflake'::regtype"
const { rows: [type] } = await client.query(find)
pg.types.setTypeParser(type.oid, pg.types.getTypeParser(1016)) // OID 1016 is bigint[]
const { rows: [after] } = await client.query(query)
console.log(after.ids) // [ '1541815603606036481', '1541815603606036482' ]

await client.end()
