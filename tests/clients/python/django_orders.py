import django
from django.conf import settings
from django.db import connection, models

settings.configure(
    # HOST and the rest come from the environment (PGHOST etc.).
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "shop"}},
)
django.setup()


class SnowflakeAutoField(models.BigAutoField):
    def db_type_suffix(self, connection):
        return "DEFAULT snowflake_nextval()"


class Order(models.Model):
    id = SnowflakeAutoField(primary_key=True)
    item = models.TextField()

    class Meta:
        app_label = "shop"
        db_table = "orders"


with connection.schema_editor() as editor:  # as a migration does
    editor.create_model(Order)

order = Order.objects.create(item="tea")
print(order.id)  # an ID

orders = Order.objects.bulk_create([Order(item=item) for item in ["milk", "sugar", "lemon"]])
print(orders[0].id)  # an ID
print(Order.objects.get(id=orders[2].id).item)  # lemon
