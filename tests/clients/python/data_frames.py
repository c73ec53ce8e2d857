import io

import pandas
from sqlalchemy import create_engine

engine = create_engine("postgresql+psycopg://")  # uses PGHOST, PGDATABASE etc.
query = "SELECT * FROM (VALUES (1541815603606036481), (NULL)) AS orders (parent)"

print(int(pandas.read_sql(query, engine).parent[0]))  # 1541815603606036480
print(pandas.read_sql(query, engine, dtype={"parent": "Int64"}).parent[0])  # 1541815603606036480
print(pandas.read_sql(query, engine, dtype_backend="numpy_nullable").parent[0])  # 1541815603606036481

file = "parent,item\n1541815603606036481,tea\n,milk\n"
print(int(pandas.read_csv(io.StringIO(file)).parent[0]))  # 1541815603606036480
print(pandas.read_csv(io.StringIO(file), dtype={"parent": "Int64"}).parent[0])  # 1541815603606036481
