import { PrismaPg } from '@prisma/adapter-pg'
import { PrismaClient } from '@prisma/client'

const prisma = new PrismaClient({ adapter: new PrismaPg({}) }) // uses PGHOST, PGDATABASE etc.

const tea = await prisma.order.create({ data: { item: 'tea' } })
console.log(tea.id.toString()) // an ID

// For many rows, take the IDs first, in the same transaction.
const ids = await prisma.$transaction(async (tx) => {
  const rows = await tx.$queryRaw`SELECT snowflake_batch(3) AS id`
  const ids = rows.map((row) => row.id)
  const items = ['milk', 'sugar', 'lemon']
  await tx.order.createMany({ data: items.map((item, i) => ({ id: ids[i], item })) })
  return ids
})
console.log(typeof ids[0]) // bigint
const lemon = await prisma.order.findUnique({ where: { id: ids[2] } })
console.log(lemon.item) // lemon
console.log(JSON.stringify({ ...tea, id: tea.id.toString() })) // {"id":"an ID","item":"tea"}

await prisma.$disconnect()
