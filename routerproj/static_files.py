"""whitenoise, with answers that suit ASGI: Django warns of a file that is streamed by plain reads,
and the admin's files are small."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware


class StaticFiles(WhiteNoiseMiddleware):  # type: ignore[misc]
    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponse:
        found = static_file.get_response(request.method, request.META)
        content = b""
        if found.file is not None:
            with found.file as file:
                content = file.read()
        answer = HttpResponse(content, status=int(found.status))
        del answer["content-type"]
        for key, value in found.headers:
            answer[key] = value
        return answer
