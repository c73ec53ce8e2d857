"""Uses the models of sqlalchemy_type.py with all drivers: keys of the default and own keys, foreign keys, IN."""

import asyncio
import os

from sqlalchemy import create_engine, func, insert, select, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from sqlalchemy_type import Base, Order, Part

SOCKET = f"{os.environ['PGHOST']}/.s.PGSQL.{os.environ.get('PGPORT', '5432')}"
USER, DATABASE = os.environ["PGUSER"], os.environ["PGDATABASE"]


def use(connection):
    Base.metadata.drop_all(connection)
    Base.metadata.create_all(connection)
    with Session(connection) as session:
        tea = Order(item="tea", parts=[Part(), Part()])
        session.add(tea)
        session.flush()
        assert [type(part.order_id) for part in tea.parts] == [int, int]

        ids = session.scalars(text("SELECT snowflake_batch(2)")).all()
        session.add_all([Order(id=id, item="milk") for id in ids] + [Order(id=1, item="one")])
        session.flush()
        session.expunge_all()
        assert session.get(Order, ids[1]).item == "milk"
        assert session.scalars(insert(Order).returning(Order.id), [{"item": "a"}, {"item": "b"}]).all() > ids

        def count(table, *conditions):
            return session.scalar(select(func.count()).select_from(table).where(*conditions))

        assert count(Order, Order.id.in_([*ids, 1, 2])) == 3
        assert count(Order, Order.id.in_([])) == 0
        assert count(Order, Order.id.not_in([])) == 6
        assert count(Order, Order.id.between(1, tea.id)) == 2
        assert count(Order, Order.id.in_(select(Part.order_id))) == 1
        assert type(session.scalar(select(func.max(Order.id)))) is int

        part = session.scalar(select(Part).join(Order).where(Order.item == "tea").limit(1))
        part.order_id = ids[0]
        session.flush()
        assert count(Part, Part.order_id == ids[0]) == 1


async def use_asyncpg():
    engine = create_async_engine(f"postgresql+asyncpg://{USER}@/{DATABASE}?host={os.environ['PGHOST']}")
    async with engine.begin() as connection:
        await connection.run_sync(use)
    await engine.dispose()
    print("asyncpg works")


for driver, address in ("psycopg", ""), ("psycopg2", ""), ("pg8000", f"{USER}@/{DATABASE}?unix_sock={SOCKET}"):
    with create_engine(f"postgresql+{driver}://{address}").begin() as connection:
        use(connection)
    print(driver, "works")
asyncio.run(use_asyncpg())
