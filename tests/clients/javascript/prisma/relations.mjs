// Related rows have exact IDs, also if PostgreSQL returns them as JSON.
import { PrismaPg } from '@prisma/adapter-pg'
import { PrismaClient } from './relations/index.js'

const prisma = new PrismaClient({ adapter: new PrismaPg({}) })
await prisma.order.create({ data: { item: 'tea', parts: { create: [{}, {}] } } })
const ids = (await prisma.part.findMany({ orderBy: { id: 'asc' } })).map(({ id }) => id)
for (const relationLoadStrategy of ['query', 'join']) {
  const include = { parts: { orderBy: { id: 'asc' } } }
  const order = await prisma.order.findFirst({ include, relationLoadStrategy })
  console.log(order.parts.every(({ id, orderId }, i) => id === ids[i] && orderId === order.id))
}
await prisma.$disconnect()
