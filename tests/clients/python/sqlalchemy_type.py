from sqlalchemy import ForeignKey, MetaData, Table, create_engine, select, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from snowflake_type import Snowflake


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(
        Snowflake, primary_key=True, server_default=text("snowflake_nextval()")
    )
    item: Mapped[str]
    parts: Mapped[list["Part"]] = relationship()


class Part(Base):
    __tablename__ = "parts"

    id: Mapped[int] = mapped_column(
        Snowflake, primary_key=True, server_default=text("snowflake_nextval()")
    )
    order_id: Mapped[int] = mapped_column(ForeignKey(Order.id))


if __name__ == "__main__":
    engine = create_engine("postgresql+psycopg://")  # uses PGHOST, PGDATABASE etc.
    Base.metadata.create_all(engine)

    with Session(engine) as session:
        order = Order(item="tea", parts=[Part(), Part()])
        session.add(order)
        session.commit()
        print(order.id)  # an ID
        print(type(order.id))  # <class 'int'>
        print(order.parts[1].order_id == order.id)  # True
        print(session.scalar(select(Order.item).where(Order.id.in_([1, order.id]))))  # tea
        print(type(session.scalar(text("SELECT id FROM orders"))))  # <class 'str'>

    parts = Table("parts", MetaData(), autoload_with=engine)
    print(repr(parts.columns.order_id.type))  # Snowflake()
