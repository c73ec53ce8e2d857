from sqlalchemy import BigInteger
from sqlalchemy.dialects.postgresql.base import ischema_names
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.types import TypeDecorator


class Snowflake(TypeDecorator):
    impl = BigInteger  # the type of parameters
    cache_ok = True

    def process_result_value(self, value, dialect):
        return None if value is None else int(value)


@compiles(Snowflake, "postgresql")
def name_of_type(type_, compiler, **options):
    return "snowflake"


ischema_names["snowflake"] = Snowflake  # for reflection
