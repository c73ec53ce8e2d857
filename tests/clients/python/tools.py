"""Prints what tools do with columns of types bigint and snowflake: "Other tools" in docs/apps/python.md."""

import asyncio
import os
import warnings

import adbc_driver_postgresql.dbapi
import alembic.autogenerate
import connectorx
import pandas
import peewee
import sqlalchemy
from alembic.migration import MigrationContext
from sqlalchemy.dialects.postgresql.base import ischema_names
from tortoise import Tortoise, fields
from tortoise.fields.db_defaults import SqlDefault
from tortoise.models import Model

HOST, USER, DATABASE = (os.environ[name] for name in ("PGHOST", "PGUSER", "PGDATABASE"))
ID = 1541815603606036481


def outcome(tool, action):
    """Prints the result, or the first line of an error."""
    try:
        result = action()
    except BaseException as error:  # ConnectorX panics
        result = str(error).splitlines()[0]
    print(f"{tool}: {result}")


# Alembic. The database has the tables of the models, with both types.
engine = sqlalchemy.create_engine("postgresql+psycopg://")
tables = "(id {0} PRIMARY KEY DEFAULT snowflake_nextval(), parent {0} REFERENCES {1})"
with engine.begin() as connection:
    for name, type_ in ("numbers", "bigint"), ("typed", "snowflake"):
        connection.execute(sqlalchemy.text(f"CREATE TABLE {name} " + tables.format(type_, name)))


def differences(type_, tables=("numbers", "typed")):
    metadata = sqlalchemy.MetaData()
    for name in tables:
        of_table = type_ if name == "typed" else sqlalchemy.BigInteger
        default = sqlalchemy.text("snowflake_nextval()")
        sqlalchemy.Table(
            name,
            metadata,
            sqlalchemy.Column("id", of_table, primary_key=True, server_default=default),
            sqlalchemy.Column("parent", of_table, sqlalchemy.ForeignKey(f"{name}.id")),
        )
    options = {
        "compare_server_default": True,
        "include_name": lambda name, kind, parents: kind != "table" or name in tables,
    }
    with engine.connect() as connection, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        context = MigrationContext.configure(connection, opts=options)
        found = alembic.autogenerate.compare_metadata(context, metadata)
        return f"{len(found)} differences, {len({str(each.message) for each in caught})} warnings"


outcome("Alembic, bigint", lambda: differences(sqlalchemy.BigInteger, ["numbers"]))
outcome("Alembic, snowflake as bigint", lambda: differences(sqlalchemy.BigInteger))
from snowflake_type import Snowflake  # noqa: E402 (it registers the type)

outcome("Alembic, snowflake", lambda: differences(Snowflake))
outcome("Alembic, registered snowflake as bigint", lambda: differences(sqlalchemy.BigInteger))
assert ischema_names["snowflake"] is Snowflake

# peewee
database = peewee.PostgresqlDatabase(DATABASE)
default = [peewee.SQL("DEFAULT snowflake_nextval()")]


class PeeweeNumber(peewee.Model):
    id = peewee.BigIntegerField(primary_key=True, constraints=default)
    item = peewee.TextField()

    class Meta:
        database = database


class SnowflakeField(peewee.BigIntegerField):
    field_type = "snowflake"

    def python_value(self, value):
        return None if value is None else int(value)


class PeeweeTyped(peewee.Model):
    id = SnowflakeField(primary_key=True, constraints=default)
    parent = peewee.ForeignKeyField("self", null=True)
    item = peewee.TextField()

    class Meta:
        database = database


def peewee_rows(model):
    row = model.create(item="tea")
    ids = [id for (id,) in model.insert_many([{"item": "milk"}, {"item": "sugar"}]).execute()]
    found = model.select().where(model.id.in_([row.id, *ids, 1])).count()
    return f"{type(row.id).__name__}, {len(ids)} IDs, {found} found, {type(model.get().id).__name__}"


database.create_tables([PeeweeNumber, PeeweeTyped])
outcome("peewee, bigint", lambda: peewee_rows(PeeweeNumber))
outcome("peewee, snowflake", lambda: peewee_rows(PeeweeTyped))
parent = PeeweeTyped.get()
PeeweeTyped.create(item="cup", parent=parent)
outcome("peewee, foreign key", lambda: PeeweeTyped.get(item="cup").parent_id == parent.id)


# Tortoise
class TortoiseSnowflakeField(fields.BigIntField):
    class _db_postgres:
        SQL_TYPE = "snowflake"

    def to_python_value(self, value):
        return None if value is None else int(value)


def key(field, **options):
    return field(primary_key=True, db_default=SqlDefault("snowflake_nextval()"), **options)


class TortoiseSerial(Model):
    id = key(fields.BigIntField)
    item = fields.TextField()


class TortoiseNumber(Model):
    id = key(fields.BigIntField, generated=False)
    item = fields.TextField()


class TortoiseTyped(Model):
    id = key(TortoiseSnowflakeField, generated=False)
    parent = fields.ForeignKeyField("models.TortoiseTyped", null=True)
    item = fields.TextField()


async def tortoise(backend):
    credentials = {"host": HOST, "port": 5432, "user": USER, "password": "", "database": DATABASE}
    connection = {"engine": f"tortoise.backends.{backend}", "credentials": credentials}
    await Tortoise.init(
        config={
            "connections": {backend: connection},  # each with statements of its own
            "apps": {"models": {"models": ["__main__"], "default_connection": backend}},
        }
    )
    await Tortoise.generate_schemas(safe=True)
    for model in TortoiseSerial, TortoiseNumber, TortoiseTyped:
        row = await model.create(item="tea")
        rows = [model(item="milk"), model(item="sugar")]
        await model.bulk_create(rows)
        kind = "an ID" if row.id > 2**50 else "a number of a sequence"
        print(f"Tortoise with {backend}, {model.__name__}: {kind}, {[type(each.id).__name__ for each in rows]}")
    for what, own in ("own key", {"id": 7}), ("foreign key", {"parent": row}):
        try:
            await TortoiseTyped.create(item="cup", **own)
            print(f"Tortoise with {backend}, {what}: works")
        except Exception as error:
            print(f"Tortoise with {backend}, {what}: {type(error).__name__}")
    await Tortoise.close_connections()
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("DROP TABLE tortoiseserial, tortoisenumber, tortoisetyped"))


for backend in "asyncpg", "psycopg":
    asyncio.run(tortoise(backend))

# Readers of data frames
bigint, snowflake = f"SELECT {ID}::bigint AS id", f"SELECT {ID}::snowflake AS id"
for name, query in ("bigint", bigint), ("snowflake", snowflake), ("id::bigint", f"SELECT id::bigint FROM ({snowflake}) AS t"):
    outcome(f"pandas, {name}", lambda: repr(pandas.read_sql(query, engine).id.tolist()))
    url = f"postgresql://{USER}@localhost/{DATABASE}?host={HOST}"
    outcome(f"ConnectorX, {name}", lambda: connectorx.read_sql(url, query).id.tolist())
    with adbc_driver_postgresql.dbapi.connect(f"postgresql:///{DATABASE}?host={HOST}&user={USER}") as connection:
        with connection.cursor() as cursor:
            cursor.execute(query)
            outcome(f"ADBC, {name}", lambda: cursor.fetch_arrow_table()["id"].to_pylist())
