from sqlalchemy import create_engine, select, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.types import UserDefinedType


class Snowflake(UserDefinedType):
    cache_ok = True

    def get_col_spec(self, **options):
        return "snowflake"

    def result_processor(self, dialect, coltype):
        return lambda value: None if value is None else int(value)


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(
        Snowflake, primary_key=True, server_default=text("snowflake_nextval()")
    )
    item: Mapped[str]


engine = create_engine("postgresql+psycopg://")  # uses PGHOST, PGDATABASE etc.
Base.metadata.create_all(engine)

with Session(engine) as session:
    order = Order(item="tea")
    session.add(order)
    session.commit()
    print(order.id)  # an ID
    print(type(order.id))  # <class 'int'>
    print(session.scalar(select(Order.item).where(Order.id == order.id)))  # tea
    print(type(session.scalar(text("SELECT id FROM orders"))))  # <class 'str'>
