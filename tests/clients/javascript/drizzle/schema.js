import { relations, sql } from 'drizzle-orm'
import { bigint, pgTable, text } from 'drizzle-orm/pg-core'

const id = () => bigint({ mode: 'bigint' })
const snowflakeId = () => id().primaryKey().default(sql`snowflake_nextval()`)

export const orders = pgTable('orders', { id: snowflakeId(), item: text().notNull() })

export const parts = pgTable('parts', {
  id: snowflakeId(),
  orderId: id().notNull().references(() => orders.id),
  name: text().notNull(),
})

export const ordersRelations = relations(orders, ({ many }) => ({ parts: many(parts) }))
export const partsRelations = relations(parts, ({ one }) => ({
  order: one(orders, { fields: [parts.orderId], references: [orders.id] }),
}))
