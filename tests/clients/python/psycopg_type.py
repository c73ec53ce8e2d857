import psycopg
from psycopg.types import TypeInfo
from psycopg.types.numeric import Int8BinaryLoader, IntLoader

connection = psycopg.connect()  # uses PGHOST, PGDATABASE etc.
query = "SELECT 1541815603606036481::snowflake"
print(type(connection.execute(query).fetchone()[0]))  # <class 'str'>

TypeInfo.fetch(connection, "snowflake").register(connection)
connection.adapters.register_loader("snowflake", IntLoader)
connection.adapters.register_loader("snowflake", Int8BinaryLoader)
print(type(connection.execute(query).fetchone()[0]))  # <class 'int'>
print(connection.execute(query, binary=True).fetchone()[0])  # 1541815603606036481
