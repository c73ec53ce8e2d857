import { DataSource, EntitySchema } from 'typeorm'

const Order = new EntitySchema({
  name: 'orders',
  columns: {
    id: { type: 'snowflake', primary: true, default: () => 'snowflake_nextval()' },
    item: { type: 'text' },
  },
})

// Uses PGHOST, PGDATABASE etc.
const source = new DataSource({ type: 'postgres', entities: [Order] })
source.driver.supportedDataTypes.push('snowflake') // before initialize()
await source.initialize()
const { upQueries } = await source.driver.createSchemaBuilder().log()
console.log(upQueries.length) // 0
await source.synchronize()

const orders = source.getRepository(Order)
const tea = await orders.findOneBy({ item: 'tea' })
console.log(tea.id) // 1541815603606036481
const milk = await orders.save({ item: 'milk' })
console.log(typeof milk.id) // string

await source.destroy()
