"""How the management API refuses, in one place: the shape, codes and headers of the gateway."""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable
from typing import Any

from django.core.exceptions import (
    NON_FIELD_ERRORS,
    PermissionDenied,
    RequestDataTooBig,
)
from django.core.exceptions import (
    ValidationError as RowInvalid,
)
from django.db import IntegrityError, InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import URLPattern, re_path, reverse
from django.views.decorators.csrf import csrf_exempt
from ninja import NinjaAPI
from ninja.errors import HttpError
from ninja.errors import ValidationError as RequestInvalid

from models_registry.access import identify
from models_registry.errors import ManagementRefused
from models_registry.ports import SchedulerRefused, SchedulerUnavailable
from models_registry.shapes import Asked, Strict
from proxy.log_context import request_id
from proxy.queries import database_away
from scheduler.protocol import ERRORS, Refused, retry_after

logger = logging.getLogger(__name__)

View = Callable[..., HttpResponse]

FAULTS_SHOWN = 10

_ARGUMENTS = (("body",), ("query",), ("page",))


def refused(
    code: str,
    message: str,
    *,
    param: str | None = None,
    retry_after_seconds: float | None = None,
) -> HttpResponse:
    kind = ERRORS[code]
    error = {"message": message, "type": kind.type, "param": param, "code": code}
    answer = JsonResponse({"error": error}, status=kind.status)
    if retry_after_seconds is not None:
        answer["Retry-After"] = retry_after(retry_after_seconds)
    if not kind.retry:
        answer["x-should-retry"] = "false"
    if kind.status == 401:
        answer["WWW-Authenticate"] = 'Bearer realm="Corral"'
    return answer


# One function for each kind of refusal ----------------------------------------------------


def _refused(request: HttpRequest, error: Refused) -> HttpResponse:
    return refused(error.code, error.message, retry_after_seconds=error.retry_after_seconds)


def _management_refused(request: HttpRequest, error: ManagementRefused) -> HttpResponse:
    return refused(error.code, error.message, param=error.param)


def _denied(request: HttpRequest, error: PermissionDenied) -> HttpResponse:
    return refused("permission_denied", f"{error}.")


def _missing(request: HttpRequest, error: Exception) -> HttpResponse:
    return refused("not_found", f"There is nothing at {request.path}.")


def _scheduler_away(request: HttpRequest, error: SchedulerUnavailable) -> HttpResponse:
    return refused("scheduler_unavailable", str(error), retry_after_seconds=5.0)


def _scheduler_refused(request: HttpRequest, error: SchedulerRefused) -> HttpResponse:
    code = error.code if error.code in ERRORS else "internal_error"
    return refused(code, str(error), retry_after_seconds=error.retry_after_seconds)


def _request_invalid(request: HttpRequest, error: RequestInvalid) -> HttpResponse:
    """Of what was sent only the fields' names are repeated: a value may be a secret, or long."""
    faults = [(_field(each["loc"]), str(each["msg"])) for each in error.errors]
    return _faulty(faults)


def _field(location: tuple[Any, ...]) -> str | None:
    """`("body", "body", "ctx_size", …)`, which is where it came from, the view's argument and the
    field, is ctx_size; a body that is no object has no field."""
    names = location[2:] if location[1:2] in _ARGUMENTS else location[1:]
    return str(names[0])[:100] if names else None


def _row_invalid(request: HttpRequest, error: RowInvalid) -> HttpResponse:
    if not hasattr(error, "error_dict"):
        return _faulty([(None, message) for message in error.messages])
    by_field = error.message_dict.items()
    return _faulty(
        [
            (None if field == NON_FIELD_ERRORS else field, message)
            for field, messages in by_field
            for message in messages
        ]
    )


def _faulty(faults: list[tuple[str | None, str]]) -> HttpResponse:
    shown = [f"{field}: {words}" if field else words for field, words in faults[:FAULTS_SHOWN]]
    if len(faults) > FAULTS_SHOWN:
        shown.append(f"and {len(faults) - FAULTS_SHOWN} more")
    param = next((field for field, _ in faults if field), None)
    return refused("validation_failed", "; ".join(shown), param=param)


def _taken(request: HttpRequest, error: IntegrityError) -> HttpResponse:
    """The checks before have passed: somebody wrote between them and the row."""
    logger.info("%s %s lost a race: %s", request.method, request.path, error)
    return refused("conflict", "Somebody made the like of it at this very moment: look again.")


def _unreadable(request: HttpRequest, error: HttpError) -> HttpResponse:
    if error.status_code == 400:
        return refused("invalid_json", "The body is not JSON.")
    raise error


def _too_large(request: HttpRequest, error: RequestDataTooBig) -> HttpResponse:
    return refused("body_too_large", "The body is larger than the management API takes.")


def _database_away(request: HttpRequest, error: Exception) -> HttpResponse:
    return _refused(request, database_away(error))


def _broken(request: HttpRequest, error: Exception) -> HttpResponse:
    logger.error("%s %s failed", request.method, request.path, exc_info=error)
    identifier = request_id()
    return refused("internal_error", f"Something broke here; the log says more under {identifier}.")


_ANSWERS: dict[type[Exception], Callable[[HttpRequest, Any], HttpResponse]] = {
    Refused: _refused,
    ManagementRefused: _management_refused,
    PermissionDenied: _denied,
    Http404: _missing,
    SchedulerUnavailable: _scheduler_away,
    SchedulerRefused: _scheduler_refused,
    RequestInvalid: _request_invalid,
    RowInvalid: _row_invalid,
    IntegrityError: _taken,
    OperationalError: _database_away,
    InterfaceError: _database_away,
    HttpError: _unreadable,
    RequestDataTooBig: _too_large,
    Exception: _broken,
}


def answer_refusals(api: NinjaAPI) -> None:
    for kind, answer in _ANSWERS.items():
        api.add_exception_handler(kind, answer)


# Around every operation, once it is known who asks ------------------------------------------


def known_names_only(operation: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that is misspelt would silently filter nothing, and a field in the body of a route
    that takes none would silently do nothing."""

    @functools.wraps(operation)
    def checked(request: HttpRequest, **values: Any) -> Any:
        asked = (type(value) for value in values.values() if isinstance(value, Asked))
        known = {name for names in asked for name in names.model_fields}
        for name in request.GET:
            if name not in known:
                raise ManagementRefused("validation_failed", _no_such_name(name, known), name[:100])
        if not any(isinstance(value, Strict) for value in values.values()):
            _check_no_body(request, known)
        return operation(request, **values)

    return checked


def _no_such_name(name: str, known: set[str]) -> str:
    instead = f"these are: {', '.join(sorted(known))}" if known else "none is"
    return f"{name[:100]} is not taken after the ?; {instead}."


def _check_no_body(request: HttpRequest, known: set[str]) -> None:
    """`{}` says nothing and is taken: some clients cannot send less."""
    if not request.body.strip():
        return
    try:
        sent = json.loads(request.body)
    except (ValueError, RecursionError):
        raise ManagementRefused(
            "invalid_json", "The body is not JSON, and none is taken."
        ) from None
    if sent == {}:
        return
    name = str(next(iter(sent)))[:100] if isinstance(sent, dict) else None
    instead = f" Write {' and '.join(sorted(known))} after the ?." if known else ""
    raise ManagementRefused("validation_failed", f"No body is taken here.{instead}", name)


# Around every view ------------------------------------------------------------------------


def for_admins(view: View) -> View:
    """The documents: for whoever may manage. A browser is sent to log in."""

    @functools.wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            identify(request)
        except Refused as error:
            if request.user.is_anonymous and "text/html" in request.headers.get("Accept", ""):
                return HttpResponseRedirect(f"{reverse('admin:login')}?next={request.path}")
            return _refused(request, error)
        return view(request, *args, **kwargs)

    return guarded


def in_our_shape(urls: tuple[list[Any], str, str]) -> tuple[list[Any], str, str]:
    """ninja's own answers to a wrong method or path are bare; and nothing here is to be cached."""
    patterns, app_name, namespace = urls
    for pattern in patterns:
        assert isinstance(pattern, URLPattern)
        pattern.callback = _shaped(pattern.callback)
    return [*patterns, re_path("", _shaped(_nothing_here))], app_name, namespace


def _shaped(view: View) -> View:
    @csrf_exempt  # sessions are checked for it by proxy.access, keys need none
    @functools.wraps(view)
    def shaped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            answer = view(request, *args, **kwargs)
        except Http404 as error:
            answer = _missing(request, error)
        if answer.status_code == 405:
            answer = _wrong_method(request, answer)
        answer["Cache-Control"] = "no-store"
        return answer

    return shaped


def _wrong_method(request: HttpRequest, bare: HttpResponse) -> HttpResponse:
    answer = refused("method_not_allowed", f"{request.method} is not answered here.")
    answer["Allow"] = bare["Allow"]
    return answer


def _nothing_here(request: HttpRequest) -> HttpResponse:
    raise Http404
