import asyncio
import json

import asyncpg


async def main():
    connection = await asyncpg.connect()  # uses PGHOST, PGDATABASE etc.

    tea = await connection.fetchrow("INSERT INTO orders (item) VALUES ('tea') RETURNING id, item")
    print(tea["id"])  # an ID
    print(type(tea["id"]))  # <class 'int'>
    # For JavaScript, make it a string.
    print(json.dumps({**tea, "id": str(tea["id"])}))  # {"id": "an ID", "item": "tea"}

    # For many rows, take the IDs first, in the same transaction.
    async with connection.transaction():
        ids = [row["id"] for row in await connection.fetch("SELECT snowflake_batch(3) AS id")]
        rows = zip(ids, ["milk", "sugar", "lemon"])
        await connection.executemany("INSERT INTO orders (id, item) VALUES ($1, $2)", rows)

    print(await connection.fetchval("SELECT item FROM orders WHERE id = $1", ids[2]))  # lemon
    await connection.close()


asyncio.run(main())
