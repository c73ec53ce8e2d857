import json

import psycopg
from psycopg.rows import namedtuple_row

connection = psycopg.connect(row_factory=namedtuple_row)  # uses PGHOST, PGDATABASE etc.

tea = connection.execute("INSERT INTO orders (item) VALUES ('tea') RETURNING id, item").fetchone()
print(tea.id)  # an ID
print(type(tea.id))  # <class 'int'>
# For JavaScript, make it a string.
print(json.dumps({"id": str(tea.id), "item": tea.item}))  # {"id": "an ID", "item": "tea"}

# For many rows, take the IDs first, in the same transaction.
with connection.transaction(), connection.cursor() as cursor:
    ids = [row.id for row in cursor.execute("SELECT snowflake_batch(3) AS id")]
    rows = list(zip(ids, ["milk", "sugar", "lemon"]))
    cursor.executemany("INSERT INTO orders (id, item) VALUES (%s, %s)", rows)

lemon = connection.execute("SELECT item FROM orders WHERE id = %s", [ids[2]]).fetchone()
print(lemon.item)  # lemon
connection.commit()
