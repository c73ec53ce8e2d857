"""Creates a user, and prints whether Django finds the user and lets the user log in."""

import sys

import django

django.setup()

from django.contrib.auth.models import Group, User  # noqa: E402
from django.db import DatabaseError  # noqa: E402
from django.test import Client  # noqa: E402
from shop.models import BigNote, Note  # noqa: E402

name = sys.argv[1]
user = User.objects.create_user(name, password="secret")
kind = "an ID" if user.pk > 2**50 else "a number of the sequence"
print(f"{name}: {kind}, found {User.objects.filter(pk=user.pk).count()}")
client = Client()
try:
    response = client.post("/login/?next=/me/", {"username": name, "password": "secret"})
    print(f"{name}: {client.get(response.url).content.decode()} is logged in")
    user.groups.add(Group.objects.create(name=name))
    print(f"{name}: {User.objects.filter(groups__name=name).count()} in the group")
except DatabaseError as error:
    print(f"{name}: {error}")
for model in Note, BigNote:
    try:
        note = model.objects.create(subject=user)
        print(f"{name}: {model.__name__} of {model.objects.get(object_id=user.pk).subject}")
    except DatabaseError as error:
        print(f"{name}: {model.__name__}: {error}")
