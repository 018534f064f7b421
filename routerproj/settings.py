"""Environment to settings. Nonsense in a variable stops here, with the variable's name.

Names begin with CORRAL_, beside DATABASE_URL and REDIS_URL; llama.cpp's own names for the router's
flags are taken where it has one. `manage.py serve` turns its command line into these variables for
the processes that it starts, so that all of them see the same settings.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import environ
from django.core.exceptions import ImproperlyConfigured

from models_registry.client_address import parse_proxies
from models_registry.downloads.addresses import parse_entries, parse_hosts
from models_registry.remote_addresses import check_proxy
from proxy.content.redacting import patterns_in
from routerproj.admin_look import UNFOLD as UNFOLD
from routerproj.databases import database_settings
from routerproj.environment import Environment
from routerproj.kv_settings import kv_budget, kv_rule
from routerproj.language_settings import *  # noqa: F403
from routerproj.login_settings import *  # noqa: F403
from routerproj.logs import LEVELS, levels_in, logging_config, secrets_in
from routerproj.ollama_environment import ollama_defaults
from routerproj.page_policy import content_security_policy
from routerproj.secret import (
    UnusableStateFolder,
    close_to_others,
    make_state_folder,
    secret_key,
)
from routerproj.sign_on.conf import local_login, sign_on_settings, turned_on
from scheduler.run_folder import control_socket, run_folder
from scheduler.runtime.devices.limits import parse_budgets, parse_margins
from scheduler.telemetry import signals_wanted

BASE_DIR = Path(__file__).resolve().parent.parent

environ.Env.read_env(BASE_DIR / ".env")  # what the environment already has wins over the file
CORRAL_OLLAMA_DEFAULTS = ollama_defaults(os.environ)
os.environ.update(CORRAL_OLLAMA_DEFAULTS.variables)
env = Environment(os.environ)

# Where state lives -----------------------------------------------------------

CORRAL_VAR = Path(env.text("CORRAL_VAR", default=str(BASE_DIR / "var"))).expanduser().absolute()
CORRAL_RUN_FOLDER = run_folder(CORRAL_VAR)
CORRAL_CONTROL_SOCKET = control_socket(CORRAL_VAR)
CORRAL_LOG_FOLDER = CORRAL_VAR / "logs"

try:
    make_state_folder(CORRAL_VAR)
    close_to_others(CORRAL_VAR)
    SECRET_KEY = env.text("CORRAL_SECRET_KEY") or secret_key(CORRAL_VAR)
except UnusableStateFolder as error:
    raise ImproperlyConfigured(str(error)) from error

# Where it listens, and with what -------------------------------------------------

CORRAL_HOST = env.text("CORRAL_HOST", "LLAMA_ARG_HOST", default="127.0.0.1")
CORRAL_PORT = env.whole("CORRAL_PORT", "LLAMA_ARG_PORT", default=8080, most=65535)
"""0: any free one."""
CORRAL_OLLAMA_PORT = env.optional_whole("CORRAL_OLLAMA_PORT", most=65535)
"""A second port, for clients of Ollama; None: none."""
CORRAL_SERVER = env.choice("CORRAL_SERVER", default="uvicorn", among=("uvicorn", "daphne"))
CORRAL_WEB_WORKERS = env.whole("CORRAL_WEB_WORKERS", default=1, least=1, most=64)

# The engine and the models ------------------------------------------------------

CORRAL_LLAMA_SERVER = env.text("CORRAL_LLAMA_SERVER")
"""Path of a llama-server, or `PATH` for the one found there; empty: the one in our own wheel."""

CORRAL_MODELS_DIR = env.text("CORRAL_MODELS_DIR", "LLAMA_ARG_MODELS_DIR")
CORRAL_HF_CACHE = env.text("CORRAL_HF_CACHE")
"""The Hugging Face cache's folder; empty: where llama.cpp looks for it, if it is there; 0: none."""
CORRAL_OLLAMA_MODELS = env.text("CORRAL_OLLAMA_MODELS")
"""The folder of Ollama's store, or `auto` for where Ollama looks for it; empty: none."""
CORRAL_MODELS_PRESET = env.text("CORRAL_MODELS_PRESET", "LLAMA_ARG_MODELS_PRESET")
"""llama.cpp's INI file of presets; empty: none."""
CORRAL_MODELS_PRESET_IGNORE_UNKNOWN = env.flag("CORRAL_MODELS_PRESET_IGNORE_UNKNOWN", default=False)
"""Keys of it that cannot be taken are warnings, and the rest counts."""
CORRAL_RESCAN_EVERY = env.seconds("CORRAL_RESCAN_EVERY", default=0.0)
"""Seconds between two looks whether the sources have changed; 0: only when somebody asks."""
CORRAL_DOWNLOADS = env.whole("CORRAL_DOWNLOADS", default=2, least=1, most=16)
"""Downloads at once."""
CORRAL_DOWNLOAD_HOSTS = parse_hosts(env.checked("CORRAL_DOWNLOAD_HOSTS", check=parse_hosts))
"""Where plain URLs may lead, also by a redirect: names, `*.example.com`, `*`, or with their scheme
(http://10.0.0.5:8000) such as have a private address."""
CORRAL_MEDIA_HOSTS = parse_entries(env.checked("CORRAL_MEDIA_HOSTS", check=parse_entries))
"""Of what requests name by an address (images …): whence it is fetched for them, in the same words;
empty: nothing is."""
CORRAL_HF_ENDPOINT = env.text("HF_ENDPOINT", "MODEL_ENDPOINT", default="https://huggingface.co")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
"""huggingface_hub reads it when it is imported: nobody is told what runs here."""
CORRAL_OLLAMA_REGISTRY = env.text("CORRAL_OLLAMA_REGISTRY", default="https://registry.ollama.ai")
CORRAL_COMMAND_LINE = env.table("CORRAL_COMMAND_LINE")
"""`serve`'s own llama-server options by canonical key, the highest layer over every preset."""
CORRAL_DEMO = env.flag("CORRAL_DEMO", default=True)

# The scheduler: times in seconds ------------------------------------------------------

CORRAL_MODELS_MAX = env.whole("CORRAL_MODELS_MAX", "LLAMA_ARG_MODELS_MAX", default=4)
"""Instances loaded at once; 0: no limit."""
CORRAL_MODELS_MAX_LOADING = env.whole("CORRAL_MODELS_MAX_LOADING", default=1, least=1)
CORRAL_MODELS_AUTOLOAD = env.flag(
    "CORRAL_MODELS_AUTOLOAD",
    "LLAMA_ARG_MODELS_AUTOLOAD",
    default=not env.text("LLAMA_ARG_NO_MODELS_AUTOLOAD"),
)
CORRAL_MAX_WAIT = env.seconds("CORRAL_MAX_WAIT", default=30.0)
"""How long the model that is next waits, at most, until a busy one takes no new requests for it."""
CORRAL_QUANTUM = env.seconds("CORRAL_QUANTUM", default=30.0)
"""How long a loaded model may serve its own waiters while others wait for its room."""
CORRAL_MIN_RESIDENCY = env.seconds("CORRAL_MIN_RESIDENCY", default=0.0)
"""A loaded model makes way for no other before this."""
if CORRAL_MIN_RESIDENCY > CORRAL_MAX_WAIT:
    raise ImproperlyConfigured(
        f"CORRAL_MIN_RESIDENCY={CORRAL_MIN_RESIDENCY:g} is more than "
        f"CORRAL_MAX_WAIT={CORRAL_MAX_WAIT:g}: lower it, or raise CORRAL_MAX_WAIT"
    )
CORRAL_MODEL_KEEP_ALIVE = env.idle_seconds("CORRAL_MODEL_KEEP_ALIVE")
"""Idle for so long, a model ends; None: it stays until its room is needed."""
CORRAL_OVERSUBSCRIBE = env.factor("CORRAL_OVERSUBSCRIBE", default=1.0, least=1.0, most=16.0)
"""Requests that a child is given at once, for each of its slots."""
CORRAL_MAX_PRIORITY_JUMP = env.seconds("CORRAL_MAX_PRIORITY_JUMP", default=30.0)
CORRAL_VICTIM_POLICY = env.choice("CORRAL_VICTIM_POLICY", default="cost", among=("lru", "cost"))
CORRAL_QUEUE_LIMIT = env.whole("CORRAL_QUEUE_LIMIT", default=4096, least=1)
CORRAL_QUEUE_LIMIT_PER_MODEL = env.whole("CORRAL_QUEUE_LIMIT_PER_MODEL", default=0)
CORRAL_QUEUE_LIMIT_PER_TENANT = env.whole("CORRAL_QUEUE_LIMIT_PER_TENANT", default=1024)
"""Both: 0 is no limit but that of the whole queue."""
CORRAL_QUEUE_WAIT = env.seconds("CORRAL_QUEUE_WAIT", default=600.0)
CORRAL_LOAD_STALL = env.seconds("CORRAL_LOAD_STALL", default=300.0, least=1.0)
"""How long a load may show no progress before it is killed."""
CORRAL_STOP_TIMEOUT = env.seconds("CORRAL_STOP_TIMEOUT", default=10.0)
CORRAL_HEALTH_EVERY = env.seconds("CORRAL_HEALTH_EVERY", default=5.0)
"""Between two questions whether a loaded child still answers; 0: it is not asked."""
CORRAL_HEALTH_TRIES = env.whole("CORRAL_HEALTH_TRIES", default=3, least=1)
"""Questions in a row without an answer after which a child counts as hung."""
CORRAL_STEP_TIMEOUT = env.seconds("CORRAL_STEP_TIMEOUT", default=600.0)
"""How long one step of a child's computation may take before it counts as hung; 0: for ever."""
CORRAL_ANSWER_TOKENS = env.whole("CORRAL_ANSWER_TOKENS", default=1024)
CORRAL_EVENT_LOG = env.flag("CORRAL_EVENT_LOG", default=False)
"""Write every event of the scheduler under logs/, to be replayed."""
CORRAL_RECORD_DAYS = env.whole("CORRAL_RECORD_DAYS", default=30, least=1)
"""Days for which the record of instances and decisions is kept."""
CORRAL_AUDIT_DAYS = env.whole("CORRAL_AUDIT_DAYS", default=365, least=1, most=36500)
"""What is older, `manage.py audit --prune` removes; nothing goes by itself."""
CORRAL_USAGE_DAYS = env.whole("CORRAL_USAGE_DAYS", default=90, least=1, most=3650)
"""Days for which single requests are kept, today being one of them."""
CORRAL_USAGE_HOUR_DAYS = env.whole("CORRAL_USAGE_HOUR_DAYS", default=400, least=1, most=36500)
"""The same of the sums by the hour. Those by the day are kept for ever."""
if CORRAL_USAGE_HOUR_DAYS < CORRAL_USAGE_DAYS:
    raise ImproperlyConfigured(
        f"CORRAL_USAGE_HOUR_DAYS={CORRAL_USAGE_HOUR_DAYS} is less than CORRAL_USAGE_DAYS="
        f"{CORRAL_USAGE_DAYS}: sums have to last as long as what they are sums of"
    )

# Memory -------------------------------------------------------------------------------

CORRAL_DEVICE_BUDGET = env.checked("CORRAL_DEVICE_BUDGET", check=parse_budgets)
"""What Corral may use of devices: `CUDA0=20GiB, Host=50%`. Above what the admin says."""
CORRAL_MEMORY_MARGIN = env.checked(
    "CORRAL_MEMORY_MARGIN", "LLAMA_ARG_MODELS_MEMORY_MARGIN", check=parse_margins
)
"""MiB that stay free on each device, or `CUDA0=512, Host=2048`. Above what the admin says."""
CORRAL_CACHE_RAM = env.whole("CORRAL_CACHE_RAM", default=512)
"""MiB of read prompts that a child keeps on the host (--cache-ram)."""
CORRAL_KV_SAVES, CORRAL_KV_RULE = kv_budget(env), kv_rule(env)
CORRAL_READ_AHEAD = env.flag("CORRAL_READ_AHEAD", default=True)
CORRAL_CONTEXT_PER_SLOT = env.whole(
    "CORRAL_CONTEXT_PER_SLOT", default=8192, least=256, most=2**31 - 1
)
"""Tokens for each slot, at most, of a preset that leaves its context open."""
CORRAL_MEASURE_WAIT = env.seconds("CORRAL_MEASURE_WAIT", default=10.0)
"""Seconds for which a preset waits to be measured, before the estimate counts."""

# The gateway: sizes in bytes, times in seconds ----------------------------------------

CORRAL_NO_AUTH = env.flag("CORRAL_NO_AUTH", default=False)
CORRAL_API_KEYS = env.words("CORRAL_API_KEYS", "LLAMA_API_KEY")
"""Keys from the command line; they belong to the default team."""
CORRAL_CORS_ORIGINS = env.words("CORRAL_CORS_ORIGINS", "LLAMA_ARG_CORS_ORIGINS")
CORRAL_MAX_BODY = env.whole("CORRAL_MAX_BODY", default=128 << 20, least=1024)
CORRAL_MAX_UPLOAD = env.whole("CORRAL_MAX_UPLOAD", default=64 << 30, least=1024)
"""Of a model file that an admin key hands over (POST /api/blobs)."""
CORRAL_RETRY_BODY = env.whole("CORRAL_RETRY_BODY", default=8 << 20)
CORRAL_BODY_MEMORY = env.whole("CORRAL_BODY_MEMORY", default=256 << 20)
"""Of all bodies together, per web process; beyond it they go to files at once."""
CORRAL_SPOOL_LIMIT = env.whole("CORRAL_SPOOL_LIMIT", default=16 << 30)
"""Of all those files together, per web process."""
CORRAL_MAX_HEADERS = env.whole("CORRAL_MAX_HEADERS", default=16 << 10, least=1024)
CORRAL_MAX_CONNECTIONS = env.whole("CORRAL_MAX_CONNECTIONS", default=2048, least=1)
CORRAL_CONNECTIONS_PER_ADDRESS = env.whole("CORRAL_CONNECTIONS_PER_ADDRESS", default=512)
"""Per web process."""
CORRAL_HEADER_TIMEOUT = env.seconds("CORRAL_HEADER_TIMEOUT", default=10.0, least=0.1)
CORRAL_BODY_TIMEOUT = env.seconds("CORRAL_BODY_TIMEOUT", default=30.0, least=0.1)
CORRAL_KEEP_ALIVE = env.seconds("CORRAL_KEEP_ALIVE", default=75.0)
CORRAL_CONNECT_TIMEOUT = env.seconds("CORRAL_CONNECT_TIMEOUT", default=5.0, least=0.1)
CORRAL_FIRST_BYTE_TIMEOUT = env.seconds("CORRAL_FIRST_BYTE_TIMEOUT", default=600.0, least=0.1)
CORRAL_BETWEEN_TOKENS_TIMEOUT = env.seconds(
    "CORRAL_BETWEEN_TOKENS_TIMEOUT", default=300.0, least=0.1
)
CORRAL_ANSWER_TIMEOUT = env.seconds("CORRAL_ANSWER_TIMEOUT", default=3600.0, least=0.1)
CORRAL_SLOW_READER_TIMEOUT = env.seconds("CORRAL_SLOW_READER_TIMEOUT", default=60.0, least=0.1)
CORRAL_DEAD_CLIENT_TIMEOUT = env.seconds("CORRAL_DEAD_CLIENT_TIMEOUT", default=60.0, least=1.0)
CORRAL_UPSTREAM_PROXY = env.checked("CORRAL_UPSTREAM_PROXY", check=check_proxy)
"""By which remote servers are reached; empty: directly, whatever HTTP_PROXY says."""
CORRAL_USAGE_JOURNAL = env.whole("CORRAL_USAGE_JOURNAL", default=1 << 30, least=64 << 10)
"""Bytes of usage that may wait for the database; beyond them nothing is answered."""
CORRAL_CONTENT_REDACT = patterns_in(env.checked("CORRAL_CONTENT_REDACT", check=patterns_in))
"""Regular expressions, one a line, of what is taken out of prompts and answers that are stored."""
CORRAL_USAGE_ASK = env.flag("CORRAL_USAGE_ASK", default=True)
"""Servers that tell the tokens of a stream only when asked to are asked."""
CORRAL_RECONNECT_WAIT = env.seconds("CORRAL_RECONNECT_WAIT", default=30.0)
CORRAL_WEBSOCKET_MESSAGE = env.whole("CORRAL_WEBSOCKET_MESSAGE", default=4 << 20, least=1024)
"""The largest, either way."""
CORRAL_WEBSOCKETS = env.whole("CORRAL_WEBSOCKETS", default=512, least=1)
"""Open at once, per web process."""
CORRAL_WEBSOCKET_IDLE = env.seconds("CORRAL_WEBSOCKET_IDLE", default=300.0, least=0.1)
"""A child's WebSocket ends when nothing has been said for so long: it keeps a slot."""
CORRAL_WEBSOCKET_TIMEOUT = env.seconds("CORRAL_WEBSOCKET_TIMEOUT", default=3600.0, least=0.1)
CORRAL_WEBSOCKET_QUIET = env.seconds("CORRAL_WEBSOCKET_QUIET", default=5.0)
"""Without a message for so long it counts as idle, and ends when its model has to go."""
CORRAL_DRAIN_TIMEOUT = env.seconds("CORRAL_DRAIN_TIMEOUT", default=30.0)
"""How long running answers may go on once a stop was asked for."""

# Logging in -----------------------------------------------------------------------------

CORRAL_LOGIN_TRIES = env.whole("CORRAL_LOGIN_TRIES", default=10, most=10_000)
"""Wrong passwords for one account from one address, until it has to wait; 0: no limit."""
CORRAL_LOGIN_WAIT = env.seconds("CORRAL_LOGIN_WAIT", default=900.0, least=1.0)
"""For so long after the last of them."""
CORRAL_TRUSTED_PROXIES = parse_proxies(env.checked("CORRAL_TRUSTED_PROXIES", check=parse_proxies))
"""Addresses or networks whose X-Forwarded-For says from where somebody logs in."""
CORRAL_STAFF_SECOND_FACTOR = env.choice(
    "CORRAL_STAFF_SECOND_FACTOR", default="optional", among=("required", "optional", "off")
)
"""`required`: who may enter the admin; `optional`: whoever has set one up."""

CORRAL_OIDC = sign_on_settings(env)
"""None: no single sign-on."""
CORRAL_LOCAL_LOGIN = local_login(env, CORRAL_OIDC)

# OpenTelemetry: its own variables say where to, how much and by what name ---------------------

CORRAL_TELEMETRY = signals_wanted(os.environ)
CORRAL_TRUST_TRACE_CONTEXT = env.flag("CORRAL_TRUST_TRACE_CONTEXT", default=False)
"""A client's `traceparent` says of which trace its request is a part."""

# Jobs: models_registry/jobs.py makes the queues ------------------------------------------

CORRAL_JOBS_REDIS_URL = env.text("REDIS_URL")
"""Empty: each queue is an SQLite file in the state folder."""
CORRAL_JOB_MODULES = (
    "models_registry.jobs",
    "models_registry.downloads.jobs",
    "models_registry.index_jobs",
    "scheduler.tasks",
    "proxy.content.jobs",
    "proxy.rollups.jobs",
    "proxy.account.jobs",
)
"""Importing them puts their jobs on the queues. Named here, so that no app names one above it."""
CORRAL_JOB_THREADS = ("proxy.usage.bringing_in.bring_in_usage",)
"""Functions that the jobs process calls, each in its own thread, with an event that ends it."""

# Django ---------------------------------------------------------------------------------

DEBUG = env.flag("CORRAL_DEBUG", default=False)
ALLOWED_HOSTS = env.words("CORRAL_ALLOWED_HOSTS", default=("localhost", "127.0.0.1", "[::1]"))
CSRF_TRUSTED_ORIGINS = env.words("CORRAL_CSRF_TRUSTED_ORIGINS")
CORRAL_HTTPS = env.flag("CORRAL_HTTPS", default=False)
"""People reach it by TLS alone, which a proxy in front ends, and it says so (X-Forwarded-Proto)."""
CORRAL_HSTS = env.whole("CORRAL_HSTS", default=30 * 24 * 3600, most=2 * 366 * 24 * 3600)
"""Seconds for which browsers then ask for nothing but TLS; 0: they are not told."""
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if CORRAL_HTTPS else None
"""A client that forges it gains nothing: the check of origins becomes stricter for it."""
SECURE_SSL_REDIRECT = SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = CORRAL_HTTPS
SECURE_REDIRECT_EXEMPT = [r"^router/api/"]  # programs would repeat their key in the clear
SECURE_HSTS_SECONDS = CORRAL_HSTS if CORRAL_HTTPS else 0
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
"""Whether other hosts of the same domain have TLS too is not for Corral to say."""
CORRAL_PAGE_POLICY = content_security_policy()

LOOK = "routerproj.lean_apps.Look"
"""unfold."""
INSTALLED_APPS = [
    LOOK,  # its templates stand before the admin's own
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "simple_history",
    "axes",
    "django_otp",
    "django_otp.plugins.otp_totp",
    "django_otp.plugins.otp_static",
    "channels",
    "ninja",  # its docs page then takes its scripts from here
    "models_registry",
    "scheduler",
    "proxy",
    "routerproj",
]
PAGELESS = env.flag("CORRAL_PAGELESS", default=False)
if PAGELESS:
    # manage.py sets it for the processes that show no page: nothing of the pages is imported there.
    INSTALLED_APPS = [app for app in INSTALLED_APPS if app not in (LOOK, "ninja")]
    INSTALLED_APPS[INSTALLED_APPS.index("django.contrib.admin")] = (
        "django.contrib.admin.apps.SimpleAdminConfig"
    )
if env.flag("CORRAL_DAPHNE", default=False):
    # It replaces `runserver` and must stand before staticfiles; 27 MB a process, so only when
    # asked: manage.py asks for `runserver`, serve for `--server daphne`.
    INSTALLED_APPS.insert(0, "daphne")

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "routerproj.page_headers.PageHeaders",
    "routerproj.static_files.StaticFiles",
    "routerproj.password_checks.FewPasswordChecks",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "routerproj.languages.PageLanguage",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "proxy.account.middleware.SecondFactor",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "simple_history.middleware.HistoryRequestMiddleware",  # who it was that changed a row
    "models_registry.audit.requests.AuditedRequests",
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "routerproj.urls"
ASGI_APPLICATION = "routerproj.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "routerproj" / "templates"],  # before the apps': what we change of them
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

DATABASES = {"default": database_settings(env.text("DATABASE_URL"), CORRAL_VAR)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}

AXES_ENABLED = CORRAL_LOGIN_TRIES > 0
AXES_FAILURE_LIMIT = CORRAL_LOGIN_TRIES
AXES_COOLOFF_TIME = timedelta(seconds=CORRAL_LOGIN_WAIT)

STATIC_URL = "/static/"
WHITENOISE_USE_FINDERS = True  # no collectstatic step between a clone and the first answer
WHITENOISE_ALLOW_ALL_ORIGINS = False  # CORS is off unless set
WHITENOISE_AUTOREFRESH = False  # it follows DEBUG otherwise, and searches the finders per request
DATA_UPLOAD_MAX_MEMORY_SIZE = 1 << 20  # bytes of a form, or of a body of the management API
SESSION_COOKIE_AGE = 12 * 3600  # seconds
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_HTTPONLY = True
CSRF_COOKIE_HTTPONLY = True  # forms carry the token, and so does the page of the management API
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

CORRAL_LOG_FORMAT = env.choice("CORRAL_LOG_FORMAT", default="text", among=("text", "json"))
CORRAL_LOG_SECRETS = secrets_in(os.environ, SECRET_KEY, CORRAL_API_KEYS)
if CORRAL_OIDC is not None:
    CORRAL_LOG_SECRETS.append(CORRAL_OIDC.client_secret)
    if not PAGELESS:
        turned_on(globals(), CORRAL_OIDC)
"""What is in no line of the log, whatever says it."""
CORRAL_ACCESS_LOG = env.flag("CORRAL_ACCESS_LOG", default=False)
"""A line of the log for each request, once it is over."""
LOGGING = logging_config(
    env.choice("CORRAL_LOG_LEVEL", default="INFO", among=LEVELS),
    CORRAL_LOG_FORMAT,
    levels_in(env.checked("CORRAL_LOG_LEVELS", check=levels_in)),
    CORRAL_LOG_SECRETS,
)
