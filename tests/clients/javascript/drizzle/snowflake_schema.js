import { relations, sql } from 'drizzle-orm'
import { customType, pgTable, text } from 'drizzle-orm/pg-core'

const snowflake = customType({ dataType: () => 'snowflake', fromDriver: BigInt, toDriver: String })
const snowflakeId = () => snowflake().primaryKey().default(sql`snowflake_nextval()`)

export const orders = pgTable('orders', { id: snowflakeId(), item: text().notNull() })

export const parts = pgTable('parts', {
  id: snowflakeId(),
  orderId: snowflake('order_id').notNull().references(() => orders.id),
})

export const ordersRelations = relations(orders, ({ many }) => ({ parts: many(parts) }))
export const partsRelations = relations(parts, ({ one }) => ({
  order: one(orders, { fields: [parts.orderId], references: [orders.id] }),
}))
