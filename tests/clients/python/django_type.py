import django
from django.conf import settings
from django.db import connection, models

settings.configure(
    # HOST and the rest come from the environment (PGHOST etc.).
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "shop"}},
)
django.setup()


class SnowflakeNextval(models.Func):
    function = "snowflake_nextval"
    output_field = models.BigIntegerField()


class SnowflakeField(models.BigIntegerField):
    def db_type(self, connection):
        return "snowflake"

    def from_db_value(self, value, expression, connection):
        return None if value is None else int(value)


class Order(models.Model):
    id = SnowflakeField(primary_key=True, db_default=SnowflakeNextval(), editable=False)
    item = models.TextField()

    class Meta:
        app_label = "shop"
        db_table = "orders"


class Part(models.Model):
    id = SnowflakeField(primary_key=True, db_default=SnowflakeNextval(), editable=False)
    order = models.ForeignKey(Order, models.CASCADE)

    class Meta:
        app_label = "shop"
        db_table = "parts"


with connection.schema_editor() as editor:  # as a migration does
    editor.create_model(Order)
    editor.create_model(Part)

order = Order.objects.create(item="tea")
print(order.id)  # an ID
print(type(order.id))  # <class 'int'>
Part.objects.create(order=order)
print(Part.objects.get(order_id=order.id).order_id == order.id)  # True
print(Order.objects.filter(id__in=[order.id, 1]).count())  # 1
