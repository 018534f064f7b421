"""Usage as a table that goes out row by row: whatever its length, few rows are held at once.

Each piece is a query of its own, so that no reader, however slow, keeps a statement open.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from asgiref.sync import sync_to_async
from django.db.models import Q, QuerySet
from django.http import StreamingHttpResponse

from models_registry.csv_rows import Row, csv_of

AT_ONCE = 1000


def csv_answer(name: str, head: Row, pieces: Iterator[list[Row]]) -> StreamingHttpResponse:
    """`pieces` are asked for one at a time, in the thread of the request's database connection."""
    answer = StreamingHttpResponse(_streamed(head, pieces), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return answer


async def _streamed(head: Row, pieces: Iterator[list[Row]]) -> AsyncIterator[bytes]:
    yield csv_of([head])
    take: Callable[[], Any] = sync_to_async(lambda: next(pieces, None))
    while (rows := await take()) is not None:
        yield csv_of(rows)


def in_pieces(
    rows: QuerySet[Any], moment: str, columns: Sequence[str], at_once: int = AT_ONCE
) -> Iterator[list[Row]]:
    """The rows in the order of `moment`, `at_once` in a query: what is written meanwhile comes or
    does not, and nothing comes twice."""
    ordered = rows.order_by(moment, "pk")
    after = Q()
    while True:
        found = list(ordered.filter(after).values_list(moment, "pk", *columns)[:at_once])
        if found:
            yield [row[2:] for row in found]
        if len(found) < at_once:
            return
        last, pk = found[-1][:2]
        after = Q(**{f"{moment}__gte": last}) & (Q(**{f"{moment}__gt": last}) | Q(pk__gt=pk))
