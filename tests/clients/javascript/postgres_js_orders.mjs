import postgres from 'postgres'

const sql = postgres() // uses PGHOST, PGDATABASE etc.

const [tea] = await sql`INSERT INTO orders (item) VALUES ('tea') RETURNING id, item`
console.log(tea.id) // an ID
console.log(typeof tea.id) // string
console.log(JSON.stringify(tea)) // {"id":"an ID","item":"tea"}

// For many rows, take the IDs first, in the same transaction.
const items = ['milk', 'sugar', 'lemon']
const ids = await sql.begin(async (sql) => {
  const rows = await sql`SELECT snowflake_batch(3) AS id`
  const ids = rows.map((row) => row.id)
  await sql`INSERT INTO orders ${sql(items.map((item, i) => ({ id: ids[i], item })))}`
  return ids
})
const [lemon] = await sql`SELECT item FROM orders WHERE id = ${ids[2]}`
console.log(lemon.item) // lemon

await sql.end()
