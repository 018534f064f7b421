"""In which language a page speaks: that of its reader's choice, else of the browser. Programs are
answered in English, whatever they accept."""

from __future__ import annotations

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.locale import LocaleMiddleware
from django.utils import translation

FOR_PROGRAMS = ("/router/api/",)
ENGLISH = "en"


class PageLanguage(LocaleMiddleware):
    def process_request(self, request: HttpRequest) -> None:
        if not request.path_info.startswith(FOR_PROGRAMS):
            super().process_request(request)
            return
        translation.activate(ENGLISH)
        request.LANGUAGE_CODE = ENGLISH

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        if request.path_info.startswith(FOR_PROGRAMS):
            return response
        return super().process_response(request, response)
