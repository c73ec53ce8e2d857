import django
from django.conf import settings
from django.db import connection, models, transaction

settings.configure(
    # HOST and the rest come from the environment (PGHOST etc.).
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "shop"}},
)
django.setup()


class SnowflakeNextval(models.Func):
    function = "snowflake_nextval"
    output_field = models.BigIntegerField()


class Order(models.Model):
    id = models.BigIntegerField(primary_key=True, db_default=SnowflakeNextval(), editable=False)
    item = models.TextField()

    class Meta:
        app_label = "shop"
        db_table = "orders"


with connection.schema_editor() as editor:  # as a migration does
    editor.create_model(Order)

order = Order.objects.create(item="tea")
print(order.id)  # an ID

# For many rows, take the IDs first, in the same transaction.
with transaction.atomic():
    with connection.cursor() as cursor:
        cursor.execute("SELECT snowflake_batch(3)")
        ids = [id for (id,) in cursor]
    orders = [Order(id=id, item=item) for id, item in zip(ids, ["milk", "sugar", "lemon"])]
    Order.objects.bulk_create(orders)
print(orders[0].id)  # an ID
print(Order.objects.get(id=ids[2]).item)  # lemon
