"""Single requests in the admin: to be read, never written."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from models_registry.admin.base import NOTHING, ReadOnlyAdmin, badge
from proxy.models import UsageRecord
from proxy.usage_pages import telling

LONGEST_ID = 128


class EndedWith(admin.SimpleListFilter):
    """By kinds: to offer each status there is, all rows would have to be read."""

    title = gettext_lazy("ended with")
    parameter_name = "ended"
    kinds = {
        "ok": (gettext_lazy("an answer"), Q(status__lt=400, code="")),
        "limit": (gettext_lazy("a limit (429)"), Q(status=429)),
        "client": (
            gettext_lazy("another error of the client (4xx)"),
            Q(status__gte=400, status__lt=500),
        ),
        "server": (gettext_lazy("an error of the server (5xx)"), Q(status__gte=500)),
        "cut": (gettext_lazy("a cut answer"), Q(status__lt=400) & ~Q(code="")),
    }

    def lookups(self, request: HttpRequest, model_admin: object) -> list[tuple[str, str]]:
        return [(name, str(title)) for name, (title, _) in self.kinds.items()]

    def queryset(
        self, request: HttpRequest, queryset: QuerySet[UsageRecord]
    ) -> QuerySet[UsageRecord]:
        kind = self.kinds.get(self.value() or "")
        return queryset if kind is None else queryset.filter(kind[1])


@admin.register(UsageRecord)
class UsageRecordAdmin(ReadOnlyAdmin):
    """What is searched for is a request's id, whole: anything else would read every row."""

    list_display = (
        "at", "team", "key_name", "asked", "preset", "outcome", "tokens", "waited", "first", "took",
    )  # fmt: skip
    list_filter = ("at", EndedWith, "estimated", "upstream")
    search_fields = ("=request_id",)
    search_help_text = gettext_lazy("A request's id: x-request-id of its answer.")
    ordering = ("-at", "-id")
    sortable_by = ("at",)
    fields = (
        "request_id", "attempt", "final", "at", "team", "key", "key_name", "user", "asked",
        "preset", "instance", "path", "dialect", "stream", "status", "code", "upstream", "read",
        "cached", "answered", "estimated", "charged", "waited", "load_waited", "first", "took",
        "client",
    )  # fmt: skip

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[UsageRecord], search_term: str
    ) -> tuple[QuerySet[UsageRecord], bool]:
        """An id may hold what the admin would take for several words."""
        wanted = search_term.strip()
        if not wanted:
            return queryset, False
        return queryset.filter(request_id=wanted[:LONGEST_ID]), False

    @admin.display(description=gettext_lazy("outcome"))
    def outcome(self, record: UsageRecord) -> SafeString:
        if not record.final:
            return badge(f"{record.code}, tried again", "warn")
        if record.code:
            return badge(f"{record.status} {record.code}", "warn" if record.status < 500 else "bad")
        return badge(str(record.status), "good" if record.status < 400 else "warn")

    @admin.display(description=gettext_lazy("tokens"))
    def tokens(self, record: UsageRecord) -> str:
        if record.read is None and record.answered is None:
            return NOTHING
        about = "about " if record.estimated else ""
        cached = f" ({record.cached:,} cached)" if record.cached else ""
        return f"{about}{record.read or 0:,}{cached} + {record.answered or 0:,}"

    @admin.display(description=gettext_lazy("queue"), ordering="queue_wait")
    def waited(self, record: UsageRecord) -> str:
        return telling.seconds(record.queue_wait)

    @admin.display(description=gettext_lazy("of this for a load"))
    def load_waited(self, record: UsageRecord) -> str:
        return telling.seconds(record.load_wait)

    @admin.display(description=gettext_lazy("first token"), ordering="first_token")
    def first(self, record: UsageRecord) -> str:
        return telling.seconds(record.first_token)

    @admin.display(description=gettext_lazy("duration"), ordering="duration")
    def took(self, record: UsageRecord) -> str:
        return telling.seconds(record.duration)
