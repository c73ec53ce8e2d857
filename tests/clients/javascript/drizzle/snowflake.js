import { eq, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import pg from 'pg'
import * as schema from './snowflake_schema.js'

const { orders, parts } = schema
const pool = new pg.Pool() // uses PGHOST, PGDATABASE etc.
const db = drizzle(pool, { schema })

const [tea] = await db.insert(orders).values({ item: 'tea' }).returning()
console.log(tea.id.toString()) // an ID
const ids = await db.transaction(async (tx) => {
  const { rows } = await tx.execute(sql`SELECT snowflake_batch(3) AS id`)
  const ids = rows.map((row) => BigInt(row.id))
  await tx.insert(parts).values(ids.map((id) => ({ id, orderId: tea.id })))
  return ids
})
const where = eq(orders.id, tea.id)
const [related] = await db.query.orders.findMany({ where, with: { parts: { orderBy: parts.id } } })
console.log(related.parts.every(({ id, orderId }, i) => id === ids[i] && orderId === tea.id)) // true

await pool.end()
