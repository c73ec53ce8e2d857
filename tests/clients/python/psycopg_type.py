import psycopg
from psycopg.types import TypeInfo
from psycopg.types.numeric import Int8BinaryLoader, IntLoader

connection = psycopg.connect()  # uses PGHOST, PGDATABASE etc.
query = "SELECT 1541815603606036481::snowflake"
print(type(connection.execute(query).fetchone()[0]))  # <class 'str'>
print(type(connection.execute(query, binary=True).fetchone()[0]))  # <class 'bytes'>

TypeInfo.fetch(connection, "snowflake").register(connection)
connection.adapters.register_loader("snowflake", IntLoader)
connection.adapters.register_loader("snowflake", Int8BinaryLoader)
print(type(connection.execute(query).fetchone()[0]))  # <class 'int'>
print(connection.execute(query, binary=True).fetchone()[0])  # 1541815603606036481

connection.execute("CREATE TEMPORARY TABLE events (id snowflake, what text)")
with connection.cursor() as cursor:
    with cursor.copy("COPY events (id, what) FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types(["int8", "text"])  # type snowflake has the binary format of int8
        copy.write_row([1541815603606036481, "login"])
print(connection.execute("SELECT array_agg(id) FROM events").fetchone()[0])  # [1541815603606036481]
connection.commit()
