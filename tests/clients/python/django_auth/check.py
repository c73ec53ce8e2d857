"""Adopts the table of django.contrib.auth, before and after the settings of the page. Prints what a login does."""

import os
import pathlib
import subprocess
import sys

import psycopg

directory = pathlib.Path(__file__).parent
own_migrations = directory / "shop/auth_migrations"
for generated in own_migrations.glob("0*.py"):  # by an earlier run
    generated.unlink()


def run(settings, *arguments):
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": settings, "PYTHONPATH": str(directory)}
    subprocess.run([sys.executable, *arguments], cwd=directory, env=environment, check=True)


def migrate(settings):
    django(settings, "migrate")
    django(settings, "migrate", "--run-syncdb")  # for "shop", which has no migrations


def django(settings, *arguments):
    run(settings, "-m", "django", *arguments, "--verbosity=0")


def adopt(table):
    with psycopg.connect() as connection:
        connection.execute("SELECT snowflake_adopt(%s, 'id', dry_run => false)", [table])


migrate("base")
run("base", "login.py", "before")
adopt("auth_user")
run("base", "login.py", "adopted")

django("settings", "makemigrations", "auth")
migrate("settings")
django("settings", "makemigrations", "auth", "--check")
run("settings", "login.py", "changed")
run("settings", "-m", "django", "shell", "--no-imports", "--command=import shop.generic_columns")

# In a new database, the migrations come first.
with psycopg.connect(autocommit=True) as connection:
    connection.execute("DROP SCHEMA public CASCADE")
    connection.execute("CREATE SCHEMA public")
    connection.execute("CREATE EXTENSION snowflake_id")
migrate("settings")
adopt("auth_user")
run("settings", "login.py", "new")
