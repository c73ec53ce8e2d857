import django
from django.conf import settings
from django.db import connection, models

settings.configure(
    # HOST and the rest come from the environment (PGHOST etc.).
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "shop"}},
)
django.setup()


class SnowflakeAutoField(models.BigAutoField):
    def db_type(self, connection):
        return "snowflake"

    def rel_db_type(self, connection):
        return "snowflake"

    def db_type_suffix(self, connection):
        return "DEFAULT snowflake_nextval()"

    def from_db_value(self, value, expression, connection):
        return None if value is None else int(value)


class Order(models.Model):
    id = SnowflakeAutoField(primary_key=True)
    item = models.TextField()

    class Meta:
        app_label = "shop"
        db_table = "orders"


class Part(models.Model):
    id = SnowflakeAutoField(primary_key=True)
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
orders = Order.objects.bulk_create([Order(item="milk"), Order(item="sugar")])
print(orders[1].id)  # an ID
