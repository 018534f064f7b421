"""The second factor: a code that an app on one's telephone counts out (TOTP), or one of the
recovery codes that are given with it.

A session in which it is awaited counts as nobody's, but for the pages that take it: middleware.py.
What a session has shown is kept in it, so that a request costs no further query.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction

from models_registry.audit.writing import record

STATE = "corral_second_factor"
NEEDED, PASSED = "needed", "passed"
CODES = 10
DIGITS = 6
MOST_DOUBLINGS = 10
"""Of a second's wait, one with each wrong code: 17 minutes. So who has found out a password neither
guesses the code (three of a million are right) nor keeps its owner out for days."""


class Awaited(AnonymousUser):
    """Somebody who has shown their password, and not yet their second factor: nobody, so far."""


class TooSoon(Exception):
    """After a wrong code the next one is taken `until` then: twice as late each time, within a
    bound."""

    def __init__(self, until: datetime) -> None:
        super().__init__(until)
        self.until = until


def wanted() -> bool:
    return bool(settings.CORRAL_STAFF_SECOND_FACTOR != "off")


def required(user: Any) -> bool:
    return bool(settings.CORRAL_STAFF_SECOND_FACTOR == "required" and user.is_staff)


def awaits(user: Any, session: Any) -> bool:
    """Whether this session of theirs has yet to show it."""
    if not (wanted() and user.is_authenticated):
        return False
    state = session.get(STATE)
    return state != PASSED and (state == NEEDED or required(user))


def note_login(sender: Any, request: Any, user: Any, **kwargs: Any) -> None:
    """Receives user_logged_in: who has a second factor must show it in this session."""
    request.session.pop(STATE, None)
    if wanted() and device_of(user) is not None:
        request.session[STATE] = NEEDED


def device_of(user: User) -> Any:
    """Their TOTP device, or None. There is one at most."""
    from django_otp.plugins.otp_totp.models import TOTPDevice

    return TOTPDevice.objects.filter(user=user, confirmed=True).first()


def begin(user: User) -> Any:
    """A new device, not in force until a code of it has been seen; earlier drafts go."""
    from django_otp.plugins.otp_totp.models import TOTPDevice

    with transaction.atomic():
        TOTPDevice.objects.filter(user=user, confirmed=False).delete()
        return TOTPDevice.objects.create(user=user, name="app", confirmed=False)


def begun(user: User) -> Any:
    from django_otp.plugins.otp_totp.models import TOTPDevice

    return TOTPDevice.objects.filter(user=user, confirmed=False).first()


def confirm(user: User, code: str) -> list[str] | None:
    """Put the device that was begun in force, in place of an earlier one, and return its recovery
    codes; None for a wrong code. Raises TooSoon."""
    from django_otp.plugins.otp_totp.models import TOTPDevice

    draft = begun(user)
    if draft is None or not _accepted(draft, _plain(code)):
        return None
    with transaction.atomic():
        TOTPDevice.objects.filter(user=user, confirmed=True).delete()
        TOTPDevice.objects.filter(pk=draft.pk).update(confirmed=True)
        record("second factor on", "user", user.get_username(), id=user.pk)
        return new_recovery_codes(user)


def accepted(user: User, code: str) -> bool:
    """Whether this is a code of theirs at this moment; each is taken once. Raises TooSoon."""
    from django_otp.plugins.otp_static.models import StaticDevice

    plain = _plain(code)
    if len(plain) == DIGITS and plain.isdecimal():
        device = device_of(user)
    else:
        device = StaticDevice.objects.filter(user=user).first()
    return device is not None and _accepted(device, plain)


def new_recovery_codes(user: User) -> list[str]:
    """In place of those that were given before."""
    from django_otp.plugins.otp_static.models import StaticDevice, StaticToken

    with transaction.atomic():
        StaticDevice.objects.filter(user=user).delete()
        device = StaticDevice.objects.create(user=user, name="recovery codes")
        codes = [StaticToken.random_token() for _ in range(CODES)]
        StaticToken.objects.bulk_create(StaticToken(device=device, token=code) for code in codes)
        record("recovery codes made", "user", user.get_username(), id=user.pk)
    return [f"{code[:4]}-{code[4:]}" for code in codes]


def recovery_codes_left(user: User) -> int:
    from django_otp.plugins.otp_static.models import StaticToken

    return int(StaticToken.objects.filter(device__user=user).count())


def remove(user: User) -> bool:
    """Whether there was one."""
    from django_otp.plugins.otp_static.models import StaticDevice
    from django_otp.plugins.otp_totp.models import TOTPDevice

    with transaction.atomic():
        gone, _ = TOTPDevice.objects.filter(user=user).delete()
        StaticDevice.objects.filter(user=user).delete()
        if gone:
            record("second factor off", "user", user.get_username(), id=user.pk)
    return bool(gone)


def _plain(code: str) -> str:
    """As it is stored: people write codes with blanks and dashes."""
    return "".join(each for each in code.lower() if each.isalnum())[:16]


def _accepted(device: Any, plain: str) -> bool:
    """Under a lock, so that nobody tries more codes by trying them at once."""
    with transaction.atomic():
        locked = type(device).objects.select_for_update().filter(pk=device.pk).first()
        if locked is None:
            return False
        locked.throttling_failure_count = min(locked.throttling_failure_count, MOST_DOUBLINGS + 1)
        allowed, why = locked.verify_is_allowed()
        if not allowed:
            raise TooSoon(why["locked_until"])
        return bool(locked.verify_token(plain))
