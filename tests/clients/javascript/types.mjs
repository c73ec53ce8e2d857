// What libraries do with columns of type snowflake: the table in docs/apps/javascript.md.
import { BigIntType, EntitySchema as Entity, MikroORM } from '@mikro-orm/postgresql'
import knex from 'knex'
import { Kysely, PostgresDialect, sql } from 'kysely'
import pg from 'pg'
import postgres from 'postgres'
import { DataTypes, Sequelize } from 'sequelize'
import { DataSource, EntitySchema } from 'typeorm'

const { PGHOST: host, PGUSER: user, PGDATABASE: dbName } = process.env
const pool = new pg.Pool()

const create = (id) => pool.query(`
  DROP TABLE IF EXISTS parts, orders;
  ${id ? `CREATE TABLE orders (id ${id} PRIMARY KEY DEFAULT snowflake_nextval(), item text NOT NULL)` : ''}`)
const createParts = () => pool.query(`
  CREATE TABLE parts (id snowflake PRIMARY KEY, order_id snowflake REFERENCES orders, other_id snowflake)`)
const typeIs = async (column = 'id') => {
  const query = `SELECT string_agg(DISTINCT udt_name, ', ') AS names FROM information_schema.columns
                 WHERE table_name IN ('orders', 'parts') AND column_name = $1`
  return (await pool.query(query, [column])).rows[0].names
}

const defaultIs = async () => {
  const query = `SELECT column_default FROM information_schema.columns
                 WHERE table_name = 'orders' AND column_name = 'id'`
  return (await pool.query(query)).rows[0].column_default
}

// Arrays.
for (const fetch_types of [true, false]) {
  const db = postgres({ fetch_types })
  const [{ ids }] = await db`SELECT '{1541815603606036481}'::snowflake[] AS ids`
  console.log('postgres.js, arrays:', fetch_types, ids)
  await db.end()
}

// Models that declare the type, and models of bigint for columns of the type.
for (const type of [DataTypes.BIGINT, 'snowflake']) {
  const db = new Sequelize(dbName, user, '', { dialect: 'postgres', host, logging: false })
  const id = { type, primaryKey: true, defaultValue: Sequelize.literal('snowflake_nextval()') }
  const Order = db.define('Order', { id, item: DataTypes.TEXT }, { tableName: 'orders', timestamps: false })
  const Part = db.define('Part', { id, other_id: type }, { tableName: 'parts', timestamps: false })
  Order.hasMany(Part, { foreignKey: 'order_id' })
  await create()
  await db.sync()
  const created = await typeIs()
  const of_key = await typeIs('order_id')
  await create('snowflake')
  await createParts()
  await db.sync({ alter: true })
  const [tea, milk] = await Order.bulkCreate([{ item: 'tea' }, { item: 'milk' }])
  const found = await Order.findAll({ where: { id: [tea.id, milk.id] }, include: Part })
  const kept = [await typeIs(), await typeIs('order_id'), await typeIs('other_id')]
  console.log('Sequelize:', created, of_key, kept, typeof tea.id, found.length)
  await db.close()
}

for (const type of ['bigint', 'snowflake']) {
  const id = { type, primary: true, default: () => 'snowflake_nextval()' }
  const Order = new EntitySchema({ name: 'orders', columns: { id, item: { type: 'text' } } })
  const order = { type: 'many-to-one', target: 'orders', joinColumn: { name: 'order_id' } }
  const Part = new EntitySchema({ name: 'parts', columns: { id }, relations: { order } })
  const db = new DataSource({ type: 'postgres', entities: [Order, Part] })
  db.driver.supportedDataTypes.push('snowflake')
  await db.initialize()
  await create()
  await db.synchronize()
  const created = await typeIs()
  const of_key = await typeIs('order_id')
  await create('snowflake')
  const { upQueries } = await db.driver.createSchemaBuilder().log()
  const changes = upQueries.map(({ query }) => query).filter((query) => query.includes('DROP COLUMN'))
  await db.synchronize()
  const tea = await db.getRepository(Order).save({ item: 'tea' })
  const part = await db.getRepository(Part).save({ order: tea })
  const [found] = await db.getRepository(Part).find({ where: { order: { id: tea.id } }, relations: { order: true } })
  console.log('TypeORM:', created, of_key, changes, found.id === part.id, found.order.id === tea.id)
  await db.destroy()
}

class Snowflake extends BigIntType {
  getColumnType() { return 'snowflake' }
}
const mikroOrmTypes = [
  { type: new BigIntType('string') },
  { type: new BigIntType('string'), autoincrement: false },
  { type: new Snowflake('string') },
]
for (const type of mikroOrmTypes) {
  const id = { ...type, primary: true, defaultRaw: 'snowflake_nextval()' }
  const parts = { kind: '1:m', entity: () => Part, mappedBy: 'order' }
  const Order = new Entity({ name: 'Order', tableName: 'orders', properties: { id, item: { type: 'text' }, parts } })
  const order = { kind: 'm:1', entity: () => Order }
  const Part = new Entity({ name: 'Part', tableName: 'parts', properties: { id, order } })
  const own = /^snowflake_/
  const schemaGenerator = { ignoreSchema: ['snowflake_internal'], skipTables: [own], skipViews: [own] }
  const db = await MikroORM.init({ host, user, dbName, entities: [Order, Part], schemaGenerator })
  await create()
  await db.schema.update()
  const created = await typeIs()
  const of_key = await typeIs('order_id')
  const columnDefault = await defaultIs()
  const left = await db.schema.getUpdateSchemaSQL()
  await create('snowflake')
  await db.schema.update()
  const em = db.em.fork()
  const tea = em.create(Order, { item: 'tea' })
  em.create(Part, { order: tea })
  await em.flush()
  const found = await db.em.fork().findOneOrFail(Order, tea.id, { populate: ['parts'] })
  console.log('MikroORM:', created, of_key, columnDefault, left === '', await typeIs(), typeof tea.id, found.parts.length)
  await db.close()
}

// Query builders: the type in a migration.
await create()
const kysely = new Kysely({ dialect: new PostgresDialect({ pool }) })
await kysely.schema.createTable('orders').addColumn('id', sql`snowflake`).execute()
console.log('Kysely:', await typeIs())
await create()
const builder = knex({ client: 'pg', connection: {} })
await builder.schema.createTable('orders', (table) => table.specificType('id', 'snowflake'))
console.log('Knex:', await typeIs())
await builder.destroy()
await pool.end()
