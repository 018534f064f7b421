"""The parts of a page on usage: a chart, what its colours mean, and all its figures as a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from proxy.rollups.figures import Figures
from proxy.rollups.histogram import percentile
from proxy.usage_pages import telling
from proxy.usage_pages.asking import By, Question, Series, Totals, series, tokens, totals
from proxy.usage_pages.charts import Chart, bars, curves
from proxy.usage_pages.spans import Span, Unit

SHOWN = 7
"""As many as can be told apart by colour; what is left is one more."""
_TOLD = (
    gettext_lazy("Tokens"),
    gettext_lazy("Share"),
    gettext_lazy("Read"),
    gettext_lazy("Cached"),
    gettext_lazy("Answered"),
    gettext_lazy("Requests"),
)
_BY = {
    By.TEAM: gettext_lazy("Team"),
    By.MODEL: gettext_lazy("Model"),
    By.KEY: gettext_lazy("Key"),
    By.USER: gettext_lazy("User"),
}
_UNITS = {Unit.HOUR: gettext_lazy("Hour"), Unit.DAY: gettext_lazy("Day")}

Link = Callable[[By, str], str]
"""What stands after the ? of a page that shows one name alone."""

SHARES = {
    gettext_lazy("half within"): 0.5,
    gettext_lazy("90 % within"): 0.9,
    gettext_lazy("99 % within"): 0.99,
}


@dataclass(frozen=True, slots=True)
class Meaning:
    """Of a colour. `slot` is its number, `query` what stands after the ? of a page of its own."""

    slot: int
    name: str
    figures: tuple[str, ...]
    query: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    title: str
    note: str
    chart: Chart | None
    meanings_head: tuple[str, ...]
    meanings: list[Meaning]
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]
    csv: str = ""
    """The path of a CSV, beneath the management API's `/usage/`, and what stands after its ?."""
    lead: str = ""
    """What most come for, in a sentence."""
    empty: str = field(default_factory=lambda: _("Nothing in this time."))


def labels_of(span: Span) -> list[str]:
    return [telling.moment(at, span.unit, span.zone) for at in span.units()]


def tokens_by(
    question: Question, by: By, title: str, link: Link, names: Mapping[str, str] | None = None
) -> Section:
    """The greatest few over time, and what the others make together. `names`: what people call
    them, where that is something else."""
    called = {**(names or {})}
    found = totals(question, by)
    shown = list(found)[:SHOWN]
    parts = _by_name(question.span, series(question, by, shown), shown)
    if len(found) > SHOWN:
        whole = _by_name(question.span, series(question, None), [""])[""]
        parts[_("all others")] = [
            all_of_it - sum(part) for all_of_it, *part in zip(whole, *parts.values(), strict=True)
        ]
    named = {called.get(name) or name_of(name, by): values for name, values in parts.items()}
    section = over_time(
        question.span,
        f"tokens-by-{by}",
        title,
        _("Tokens read and answered."),
        named,
        meanings=_meanings(found, by, link, called),
        meanings_head=(str(_BY[by]), *map(str, _TOLD)),
        csv=f"series.csv?by={by}",
    )
    return replace(section, lead=_lead(section.meanings))


def _lead(meanings: Sequence[Meaning]) -> str:
    """Who has most; empty when nobody has any."""
    if not meanings:
        return ""
    most = meanings[0]
    count, share, *_rest = most.figures
    if count == telling.count(0):
        return ""
    named = {"name": most.name, "count": count, "share": share}
    return _("Most tokens: %(name)s, %(count)s (%(share)s of all).") % named


def _by_name(span: Span, found: Series, names: Sequence[str]) -> dict[str, list[float]]:
    units = {at: number for number, at in enumerate(span.units())}
    values = {name: [0.0] * len(units) for name in names}
    for (at, name), numbers in found.items():
        values[name][units[at]] += tokens(numbers)
    return values


def _meanings(found: Totals, by: By, link: Link, called: Mapping[str, str]) -> list[Meaning]:
    whole = sum(tokens(numbers) for numbers in found.values())
    items = list(found.items())
    shown = [
        Meaning(
            slot,
            called.get(name) or name_of(name, by),
            _told(numbers, whole),
            link(by, name) if name else "",
        )
        for slot, (name, numbers) in enumerate(items[:SHOWN])
    ]
    if others := [numbers for _name, numbers in items[SHOWN:]]:
        together = {name: sum(each[name] for each in others) for name in others[0]}
        shown.append(Meaning(SHOWN, _("all others"), _told(together, whole)))
    return shown


def _told(numbers: Mapping[str, int], whole: int) -> tuple[str, ...]:
    """As `_TOLD` heads them."""
    both = numbers["read"] + numbers["answered"]
    rest = (telling.count(numbers[name]) for name in ("read", "cached", "answered", "requests"))
    return (telling.count(both), telling.share(both, whole), *rest)


def name_of(name: str, by: By) -> str:
    """What has none: a key of the settings, or a request for a model that is not there."""
    return name or {By.MODEL: _("(no such model)"), By.KEY: _("(no key)")}.get(by, _("(nobody's)"))


def requests(span: Span, found: Mapping[datetime, Figures]) -> Section:
    kinds: dict[str, Callable[[Mapping[str, int]], int]] = {
        _("answered"): lambda numbers: numbers["requests"] - numbers["failed"] - numbers["refused"],
        _("failed"): lambda numbers: numbers["failed"],
        _("refused"): lambda numbers: numbers["refused"],
    }
    numbers = [found[at].numbers if at in found else None for at in span.units()]
    values = {
        name: [float(figure(each)) if each else 0.0 for each in numbers]
        for name, figure in kinds.items()
    }
    return over_time(
        span,
        "requests",
        _("Requests"),
        _(
            "Failed: a model had them, and did not end them well. Refused: none had them, or it "
            "did not take them as they were."
        ),
        values,
        csv="series.csv",
    )


def tokens_of(span: Span, found: Mapping[datetime, Figures]) -> Section:
    """By kind."""
    kinds: dict[str, Callable[[Mapping[str, int]], int]] = {
        _("read"): lambda numbers: numbers["read"] - numbers["cached"],
        _("read, cached"): lambda numbers: numbers["cached"],
        _("answered"): lambda numbers: numbers["answered"],
    }
    numbers = [found[at].numbers if at in found else None for at in span.units()]
    values = {
        name: [float(figure(each)) if each else 0.0 for each in numbers]
        for name, figure in kinds.items()
    }
    note = _("Cached: they stood in the model's memory already, and were not read again.")
    return over_time(span, "tokens", _("Tokens"), note, values)


def codes(span: Span, found: Mapping[datetime, Figures]) -> Section:
    sums: dict[str, int] = {}
    for figures in found.values():
        for code, times in figures.codes.items():
            sums[code] = sums.get(code, 0) + times
    ordered = sorted(sums, key=lambda code: (-sums[code], code))
    values = {
        code: [float(found[at].codes.get(code, 0)) if at in found else 0.0 for at in span.units()]
        for code in ordered[:SHOWN]
    }
    if len(ordered) > SHOWN:
        values[_("all others")] = [
            float(sum(found[at].codes.get(code, 0) for code in ordered[SHOWN:] if at in found))
            for at in span.units()
        ]
    return over_time(
        span,
        "errors",
        _("Refusals and failures by code"),
        _("What each code means stands in docs/errors.md; client_gone is a client that left."),
        values,
    )


def over_time(
    span: Span,
    name: str,
    title: str,
    note: str,
    values: Mapping[str, Sequence[float]],
    *,
    meanings: list[Meaning] | None = None,
    meanings_head: tuple[str, ...] = (),
    csv: str = "",
) -> Section:
    """Bars, one row of the table for each in which there is something."""
    labels = labels_of(span)
    whole = sum(sum(each) for each in values.values())
    if meanings is None:
        meanings = [
            Meaning(slot, each, (telling.count(sum(of)), telling.share(sum(of), whole)))
            for slot, (each, of) in enumerate(values.items())
        ]
    rows = [
        (label, *(telling.count(each[at]) for each in values.values()))
        for at, label in enumerate(labels)
        if any(each[at] for each in values.values())
    ]
    chart = bars(labels, values, telling.short) if rows else None
    head = (str(_UNITS[span.unit]), *values)
    named = meanings_head or (_("What"), _("In all"), _("Share"))
    return Section(name, title, note, chart, named, meanings, head, rows, csv)


def latency(
    span: Span,
    found: Mapping[datetime, Figures],
    measure: str,
    title: str,
    note: str,
    shares: Mapping[Any, float] = SHARES,
) -> Section:
    """Percentiles over time. An hour without any breaks the line."""
    buckets = [found[at].histograms.get(measure, {}) if at in found else {} for at in span.units()]
    told = {
        str(name): [percentile(each, part) for each in buckets] for name, part in shares.items()
    }
    values = {
        name: [math.nan if each is None else each for each in of] for name, of in told.items()
    }
    whole: dict[int, int] = {}
    for each in buckets:
        for bucket, times in each.items():
            whole[bucket] = whole.get(bucket, 0) + times
    meanings = [
        Meaning(slot, str(name), (telling.seconds(percentile(whole, part)),))
        for slot, (name, part) in enumerate(shares.items())
    ]
    labels = labels_of(span)
    rows = [
        (label, telling.count(sum(buckets[at].values())),
         *(telling.seconds(of[at]) for of in told.values()))
        for at, label in enumerate(labels)
        if buckets[at]
    ]  # fmt: skip
    chart = curves(labels, values, telling.seconds) if rows else None
    head = (str(_UNITS[span.unit]), _("Requests"), *(name.capitalize() for name in told))
    csv = "latency.csv"
    named = (_("What"), _("All of it"))
    return Section(measure, title, note, chart, named, meanings, head, rows, csv)
