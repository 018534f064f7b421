"""What the libraries for logging in are told, whatever the environment says."""

from __future__ import annotations

AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",  # asked first: it refuses who has tried too often
    "django.contrib.auth.backends.ModelBackend",
]
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]  # a stranger locks nobody else out
AXES_CLIENT_IP_CALLABLE = "routerproj.login_throttle.client_network"
AXES_USERNAME_CALLABLE = "routerproj.login_throttle.account_named"
AXES_CLIENT_STR_CALLABLE = "routerproj.login_throttle.in_the_log"
AXES_LOCKOUT_CALLABLE = "routerproj.login_throttle.too_many_tries"
AXES_RESET_ON_SUCCESS = True
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_DISABLE_ACCESS_LOG = True
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False
OTP_TOTP_ISSUER = "Corral"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
