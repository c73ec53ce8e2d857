import { eq, relations, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import { customType, pgTable, text } from 'drizzle-orm/pg-core'
import pg from 'pg'

const snowflake = customType({ dataType: () => 'snowflake', fromDriver: BigInt, toDriver: String })
const snowflakeId = () => snowflake().primaryKey().default(sql`snowflake_nextval()`)

const orders = pgTable('orders', { id: snowflakeId(), item: text().notNull() })
const parts = pgTable('parts', {
  id: snowflakeId(),
  orderId: snowflake('order_id').notNull().references(() => orders.id),
})
const ordersRelations = relations(orders, ({ many }) => ({ parts: many(parts) }))
const partsRelations = relations(parts, ({ one }) => ({
  order: one(orders, { fields: [parts.orderId], references: [orders.id] }),
}))

const pool = new pg.Pool() // uses PGHOST, PGDATABASE etc.
const db = drizzle(pool, { schema: { orders, parts, ordersRelations, partsRelations } })

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
