"""A path that nobody answers: a page for browsers, an error in llama.cpp's form for others."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views import defaults

from proxy.dialects.llamacpp import error_answer
from scheduler.protocol import Refused


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    if "text/html" in request.headers.get("Accept", ""):
        return defaults.page_not_found(request, exception)
    words = f"There is no endpoint {request.method} {request.path} on this gateway."
    answer = error_answer(Refused("not_found", words), "")
    return JsonResponse(answer.body, status=answer.status)
