from django.contrib.auth import migrations

__path__ += migrations.__path__  # Django's own migrations, and those that makemigrations adds here
