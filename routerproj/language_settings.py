"""Languages and times, as Django's settings have them: a part of settings.py."""

from __future__ import annotations

from pathlib import Path

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LOCALE_PATHS = [Path(__file__).parent / "locale"]
LANGUAGE_COOKIE_AGE = 365 * 24 * 3600  # seconds
LANGUAGE_COOKIE_HTTPONLY = True
LANGUAGE_COOKIE_SAMESITE = "Lax"
TIME_ZONE = "UTC"
USE_TZ = True
FORMAT_MODULE_PATH = "routerproj.formats"
