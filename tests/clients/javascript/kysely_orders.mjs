import { Kysely, Migrator, PostgresDialect, sql } from 'kysely'
import pg from 'pg'

const pool = new pg.Pool() // uses PGHOST, PGDATABASE etc.
const db = new Kysely({ dialect: new PostgresDialect({ pool }) })

const createOrders = {
  async up(db) {
    await db.schema
      .createTable('orders')
      .addColumn('id', 'bigint', (column) => column.primaryKey().defaultTo(sql`snowflake_nextval()`))
      .addColumn('item', 'text', (column) => column.notNull())
      .execute()
  },
}
const provider = { getMigrations: async () => ({ '2026-11-24-orders': createOrders }) }
const { error } = await new Migrator({ db, provider }).migrateToLatest()
if (error) throw error

const insert = db.insertInto('orders').values({ item: 'tea' }).returningAll()
const tea = await insert.executeTakeFirstOrThrow()
console.log(tea.id) // an ID
console.log(typeof tea.id) // string
console.log(JSON.stringify(tea)) // {"id":"an ID","item":"tea"}

// For many rows, take the IDs first, in the same transaction.
const items = ['milk', 'sugar', 'lemon']
const ids = await db.transaction().execute(async (tx) => {
  const { rows } = await sql`SELECT snowflake_batch(3) AS id`.execute(tx)
  const ids = rows.map((row) => row.id)
  const values = items.map((item, i) => ({ id: ids[i], item }))
  await tx.insertInto('orders').values(values).execute()
  return ids
})
const query = db.selectFrom('orders').selectAll().where('id', '=', ids[2])
const lemon = await query.executeTakeFirstOrThrow()
console.log(lemon.item) // lemon

await db.destroy()
