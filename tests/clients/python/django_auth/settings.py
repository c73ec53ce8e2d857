from base import *

INSTALLED_APPS = [
    "shop.apps.BigAuthConfig",  # in place of "django.contrib.auth"
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "shop",
]
MIGRATION_MODULES = {"auth": "shop.auth_migrations"}
