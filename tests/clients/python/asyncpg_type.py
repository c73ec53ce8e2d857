import asyncio
import struct

import asyncpg


async def register(connection):
    await connection.set_type_codec(
        "snowflake",
        schema="public",
        format="binary",
        encoder=struct.Struct("!q").pack,
        decoder=lambda value: struct.unpack("!q", value)[0],
    )


async def main():
    connection = await asyncpg.connect()  # uses PGHOST, PGDATABASE etc.
    id = 1541815603606036481
    query = f"SELECT {id}::snowflake"
    print(type(await connection.fetchval(query)))  # <class 'str'>

    await register(connection)
    print(type(await connection.fetchval(query)))  # <class 'int'>
    print(await connection.fetchval("SELECT $1::snowflake[]", [id, None]))  # [1541815603606036481, None]

    await connection.execute("CREATE TEMPORARY TABLE events (id snowflake, what text)")
    ids = [row["id"] for row in await connection.fetch("SELECT snowflake_batch(3) AS id")]
    records = [(id, "login") for id in ids]
    print(await connection.copy_records_to_table("events", records=records))  # COPY 3
    print([row["id"] for row in await connection.fetch("SELECT id FROM events")] == ids)  # True
    await connection.close()


asyncio.run(main())
