from django.apps import apps
from django.contrib.contenttypes.fields import GenericForeignKey
from django.db import connection

for model in apps.get_models():
    for field in model._meta.private_fields:
        if isinstance(field, GenericForeignKey):
            column = model._meta.get_field(field.fk_field)
            print(model._meta.db_table, column.column, column.db_type(connection))
