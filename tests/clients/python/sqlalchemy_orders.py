from sqlalchemy import BigInteger, create_engine, select, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(
        BigInteger, primary_key=True, server_default=text("snowflake_nextval()")
    )
    item: Mapped[str]


engine = create_engine("postgresql+psycopg://")  # uses PGHOST, PGDATABASE etc.
Base.metadata.create_all(engine)

with Session(engine) as session:
    order = Order(item="tea")
    session.add(order)
    session.flush()
    print(order.id)  # an ID

    # For many rows, take the IDs first, in the same transaction.
    ids = session.scalars(text("SELECT snowflake_batch(3)"))
    orders = [Order(id=id, item=item) for id, item in zip(ids, ["milk", "sugar", "lemon"])]
    session.add_all(orders)
    session.commit()
    print(orders[0].id)  # an ID
    print(session.scalar(select(Order.item).where(Order.id == orders[2].id)))  # lemon
