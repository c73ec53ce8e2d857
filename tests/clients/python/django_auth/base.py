"""The settings of a project."""

SECRET_KEY = "not secret"
DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "shop"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
]
ROOT_URLCONF = "urls"
ALLOWED_HOSTS = ["testserver"]
