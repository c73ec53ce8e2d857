"""Prints the types that SQLAlchemy reflects for columns whose default takes a number of a segment."""

from sqlalchemy import MetaData, Table, create_engine
from sqlalchemy.schema import CreateTable

engine = create_engine('postgresql+psycopg://')  # uses PGHOST, PGDATABASE etc.
for name in 'by_segment_nextval', 'by_segment_next':
    table = Table(name, MetaData(), autoload_with=engine)
    definition = str(CreateTable(table).compile(engine))
    print(f"{name}: {'BIGSERIAL' if 'BIGSERIAL' in definition else 'BIGINT'}")
