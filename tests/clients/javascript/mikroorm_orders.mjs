import { BigIntType, EntitySchema, MikroORM } from '@mikro-orm/postgresql'

class Snowflake extends BigIntType {
  getColumnType() { return 'snowflake' }
}

const Order = new EntitySchema({
  name: 'Order',
  tableName: 'orders',
  properties: {
    id: { type: new Snowflake('string'), primary: true, defaultRaw: 'snowflake_nextval()' },
    item: { type: 'text' },
  },
})

const { PGHOST: host, PGUSER: user, PGDATABASE: dbName } = process.env
const own = /^snowflake_/
const orm = await MikroORM.init({
  host, user, dbName,
  entities: [Order],
  schemaGenerator: { ignoreSchema: ['snowflake_internal'], skipTables: [own], skipViews: [own] },
})
await orm.schema.update() // as a migration does
console.log(await orm.schema.getUpdateSchemaSQL() === '') // true

const em = orm.em.fork()
const tea = em.create(Order, { item: 'tea' })
await em.flush()
console.log(tea.id) // an ID
console.log(JSON.stringify(tea)) // {"id":"an ID","item":"tea"}

// For many rows, take the IDs first, in the same transaction.
const ids = await em.transactional(async (em) => {
  const rows = await em.execute('SELECT snowflake_batch(3) AS id')
  const ids = rows.map((row) => row.id)
  await em.insertMany(Order, ['milk', 'sugar', 'lemon'].map((item, i) => ({ id: ids[i], item })))
  return ids
})
const lemon = await orm.em.fork().findOneOrFail(Order, ids[2])
console.log(lemon.item) // lemon

await orm.close()
