import asyncio

import asyncpg


async def main():
    connection = await asyncpg.connect()  # uses PGHOST, PGDATABASE etc.
    query = "SELECT 1541815603606036481::snowflake"
    print(type(await connection.fetchval(query)))  # <class 'str'>

    await connection.set_type_codec("snowflake", schema="public", encoder=str, decoder=int)
    print(type(await connection.fetchval(query)))  # <class 'int'>
    print(await connection.fetchval("SELECT $1::snowflake", 1541815603606036481))  # 1541815603606036481
    await connection.close()


asyncio.run(main())
