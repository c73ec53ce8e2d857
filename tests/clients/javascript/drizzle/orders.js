import { eq, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import { migrate } from 'drizzle-orm/node-postgres/migrator'
import pg from 'pg'
import * as schema from './schema.js'

const { orders, parts } = schema
const pool = new pg.Pool() // uses PGHOST, PGDATABASE etc.
const db = drizzle(pool, { schema })
await migrate(db, { migrationsFolder: 'migrations' })

const [tea] = await db.insert(orders).values({ item: 'tea' }).returning()
console.log(tea.id.toString()) // an ID
console.log(JSON.stringify({ ...tea, id: tea.id.toString() })) // {"id":"an ID","item":"tea"}

// For many rows, take the IDs first, in the same transaction.
const names = ['milk', 'sugar', 'lemon']
const ids = await db.transaction(async (tx) => {
  const { rows } = await tx.execute(sql`SELECT snowflake_batch(3) AS id`)
  const ids = rows.map((row) => BigInt(row.id))
  await tx.insert(parts).values(names.map((name, i) => ({ id: ids[i], orderId: tea.id, name })))
  return ids
})
const [lemon] = await db.select().from(parts).where(eq(parts.id, ids[2]))
console.log(lemon.name) // lemon

// A join returns the IDs. A relational query rounds the IDs of the other table.
const isExact = (rows) => rows.every((row, i) => row.id === ids[i])
const join = db.select({ id: parts.id }).from(orders).innerJoin(parts, eq(parts.orderId, orders.id))
console.log(isExact(await join.orderBy(parts.id))) // true
const [related] = await db.query.orders.findMany({ with: { parts: { orderBy: parts.id } } })
console.log(isExact(related.parts)) // false

await pool.end()
