"""Environment to settings. Nonsense in a variable stops here, with the variable's name.

Names begin with CORRAL_, beside DATABASE_URL; llama.cpp's own names for the router's flags are
taken where it has one. `manage.py serve` turns its command line into these variables for the
processes that it starts, so that all of them see the same settings.
"""

from __future__ import annotations

from pathlib import Path

import environ

from routerproj.secret import secret_key
from scheduler.run_folder import control_socket, run_folder

BASE_DIR = Path(__file__).resolve().parent.parent

env = environ.Env()
environ.Env.read_env(BASE_DIR / ".env")

# Where state lives -----------------------------------------------------------

CORRAL_VAR = Path(env.str("CORRAL_VAR", default=str(BASE_DIR / "var"))).absolute()
CORRAL_RUN_FOLDER = run_folder(CORRAL_VAR)
CORRAL_CONTROL_SOCKET = control_socket(CORRAL_VAR)
CORRAL_LOG_FOLDER = CORRAL_VAR / "logs"

# The engine and the models ------------------------------------------------------

CORRAL_LLAMA_SERVER = env.str("CORRAL_LLAMA_SERVER", default="")
"""Path of a llama-server, or `PATH` for the one found there; empty: the one in our own wheel."""

CORRAL_MODELS_DIR = env.str("CORRAL_MODELS_DIR", default=env.str("LLAMA_ARG_MODELS_DIR", default=""))
CORRAL_COMMAND_LINE = env.json("CORRAL_COMMAND_LINE", default={})
"""`serve`'s own llama-server options by canonical key, the highest layer over every preset."""
CORRAL_DEMO = env.bool("CORRAL_DEMO", default=True)

# The scheduler --------------------------------------------------------------------

CORRAL_MODELS_MAX = env.int("CORRAL_MODELS_MAX", default=env.int("LLAMA_ARG_MODELS_MAX", default=4))
CORRAL_MODELS_MAX_LOADING = env.int("CORRAL_MODELS_MAX_LOADING", default=1)
CORRAL_MODELS_AUTOLOAD = env.bool(
    "CORRAL_MODELS_AUTOLOAD", default=env.bool("LLAMA_ARG_MODELS_AUTOLOAD", default=True)
)
CORRAL_QUEUE_LIMIT = env.int("CORRAL_QUEUE_LIMIT", default=4096)
CORRAL_QUEUE_WAIT = env.float("CORRAL_QUEUE_WAIT", default=600.0)
CORRAL_STOP_TIMEOUT = env.float("CORRAL_STOP_TIMEOUT", default=10.0)
CORRAL_RECORD_DAYS = env.int("CORRAL_RECORD_DAYS", default=30)

# The gateway: sizes in bytes, times in seconds ----------------------------------------

CORRAL_NO_AUTH = env.bool("CORRAL_NO_AUTH", default=False)
CORRAL_API_KEYS = env.list("CORRAL_API_KEYS", default=env.list("LLAMA_API_KEY", default=[]))
"""Keys from the command line; they belong to the default team."""
CORRAL_CORS_ORIGINS = env.list("CORRAL_CORS_ORIGINS", default=[])
CORRAL_MAX_BODY = env.int("CORRAL_MAX_BODY", default=128 << 20)
CORRAL_RETRY_BODY = env.int("CORRAL_RETRY_BODY", default=8 << 20)
CORRAL_MAX_HEADERS = env.int("CORRAL_MAX_HEADERS", default=16 << 10)
CORRAL_MAX_CONNECTIONS = env.int("CORRAL_MAX_CONNECTIONS", default=2048)
CORRAL_HEADER_TIMEOUT = env.float("CORRAL_HEADER_TIMEOUT", default=10.0)
CORRAL_BODY_TIMEOUT = env.float("CORRAL_BODY_TIMEOUT", default=30.0)
CORRAL_CONNECT_TIMEOUT = env.float("CORRAL_CONNECT_TIMEOUT", default=5.0)
CORRAL_FIRST_BYTE_TIMEOUT = env.float("CORRAL_FIRST_BYTE_TIMEOUT", default=600.0)
CORRAL_BETWEEN_TOKENS_TIMEOUT = env.float("CORRAL_BETWEEN_TOKENS_TIMEOUT", default=300.0)
CORRAL_ANSWER_TIMEOUT = env.float("CORRAL_ANSWER_TIMEOUT", default=3600.0)
CORRAL_SLOW_READER_TIMEOUT = env.float("CORRAL_SLOW_READER_TIMEOUT", default=60.0)
CORRAL_RECONNECT_WAIT = env.float("CORRAL_RECONNECT_WAIT", default=30.0)
CORRAL_DRAIN_TIMEOUT = env.float("CORRAL_DRAIN_TIMEOUT", default=30.0)

# Django ---------------------------------------------------------------------------------

DEBUG = env.bool("CORRAL_DEBUG", default=False)
SECRET_KEY = env.str("CORRAL_SECRET_KEY", default="") or secret_key(CORRAL_VAR)
ALLOWED_HOSTS = env.list("CORRAL_ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("CORRAL_CSRF_TRUSTED_ORIGINS", default=[])

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "models_registry",
    "scheduler",
    "proxy",
    "routerproj",
]
if env.bool("CORRAL_DAPHNE", default=False):
    # It replaces `runserver` and must stand before staticfiles; 27 MB a process, so only when asked.
    INSTALLED_APPS.insert(0, "daphne")

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "routerproj.urls"
ASGI_APPLICATION = "routerproj.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

DATABASES = {
    "default": env.db("DATABASE_URL", default=f"sqlite:///{CORRAL_VAR / 'corral.sqlite3'}")
}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
    }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "/static/"
WHITENOISE_USE_FINDERS = True  # no collectstatic step between a clone and the first answer
SESSION_COOKIE_AGE = 12 * 3600
SESSION_COOKIE_SAMESITE = "Lax"
SECURE_CONTENT_TYPE_NOSNIFF = True
X_FRAME_OPTIONS = "DENY"
