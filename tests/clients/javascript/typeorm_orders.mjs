import { DataSource, EntitySchema } from 'typeorm'

const Order = new EntitySchema({
  name: 'orders',
  columns: {
    id: { type: 'bigint', primary: true, default: () => 'snowflake_nextval()' },
    item: { type: 'text' },
  },
})

class CreateOrders1700000000000 {
  async up(runner) {
    await runner.query(`
      CREATE TABLE orders (
        id bigint PRIMARY KEY DEFAULT snowflake_nextval(),
        item text NOT NULL
      )`)
  }
}

const source = new DataSource({
  type: 'postgres', // uses PGHOST, PGDATABASE etc.
  entities: [Order],
  migrations: [CreateOrders1700000000000],
})
await source.initialize()
await source.runMigrations()
const { upQueries } = await source.driver.createSchemaBuilder().log()
console.log(upQueries.length) // 0

const orders = source.getRepository(Order)
const tea = await orders.save({ item: 'tea' })
console.log(tea.id) // an ID
console.log(typeof tea.id) // string
console.log(JSON.stringify(tea)) // {"item":"tea","id":"an ID"}

// For many rows, take the IDs first, in the same transaction.
const items = ['milk', 'sugar', 'lemon']
const ids = await source.transaction(async (manager) => {
  const rows = await manager.query('SELECT snowflake_batch(3) AS id')
  const ids = rows.map((row) => row.id)
  await manager.insert(Order, items.map((item, i) => ({ id: ids[i], item })))
  return ids
})
const lemon = await orders.findOneBy({ id: ids[2] })
console.log(lemon.item) // lemon

await source.destroy()
