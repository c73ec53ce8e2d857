import knex from 'knex'

const db = knex({ client: 'pg', connection: {} }) // uses PGHOST, PGDATABASE etc.

const createOrders = {
  up: (db) => db.schema.createTable('orders', (table) => {
    table.bigInteger('id').primary().defaultTo(db.raw('snowflake_nextval()'))
    table.text('item').notNullable()
  }),
  down: (db) => db.schema.dropTable('orders'),
}
const migrationSource = {
  getMigrations: async () => ['2026-11-24-orders'],
  getMigrationName: (name) => name,
  getMigration: async () => createOrders,
}
await db.migrate.latest({ migrationSource })

const [tea] = await db('orders').insert({ item: 'tea' }).returning('*')
console.log(tea.id) // an ID
console.log(typeof tea.id) // string
console.log(JSON.stringify(tea)) // {"id":"an ID","item":"tea"}

// For many rows, take the IDs first, in the same transaction.
const items = ['milk', 'sugar', 'lemon']
const ids = await db.transaction(async (tx) => {
  const { rows } = await tx.raw('SELECT snowflake_batch(3) AS id')
  const ids = rows.map((row) => row.id)
  await tx('orders').insert(items.map((item, i) => ({ id: ids[i], item })))
  return ids
})
const lemon = await db('orders').where({ id: ids[2] }).first()
console.log(lemon.item) // lemon

await db.destroy()
