import { DataTypes, QueryTypes, Sequelize } from 'sequelize'

const { PGDATABASE, PGUSER, PGPASSWORD, PGHOST: host } = process.env
const options = { dialect: 'postgres', host, logging: false }
const sequelize = new Sequelize(PGDATABASE, PGUSER, PGPASSWORD, options)

const defaultValue = Sequelize.literal('snowflake_nextval()')
const columns = {
  id: { type: DataTypes.BIGINT, primaryKey: true, defaultValue },
  item: { type: DataTypes.TEXT, allowNull: false },
}
const Order = sequelize.define('Order', columns, { tableName: 'orders', timestamps: false })

await sequelize.getQueryInterface().createTable('orders', columns) // as in a migration

const tea = await Order.create({ item: 'tea' })
console.log(tea.id) // an ID
console.log(typeof tea.id) // string
console.log(JSON.stringify(tea)) // {"id":"an ID","item":"tea"}

// For many rows, take the IDs first, in the same transaction.
const items = ['milk', 'sugar', 'lemon']
const ids = await sequelize.transaction(async (transaction) => {
  const options = { type: QueryTypes.SELECT, transaction }
  const rows = await sequelize.query('SELECT snowflake_batch(3) AS id', options)
  const ids = rows.map((row) => row.id)
  await Order.bulkCreate(items.map((item, i) => ({ id: ids[i], item })), { transaction })
  return ids
})
const lemon = await Order.findByPk(ids[2])
console.log(lemon.item) // lemon

await sequelize.close()
