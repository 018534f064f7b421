"""The trail cannot be changed, by the ORM or by SQL; and what was changed all the same is found."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from hypothesis import given
from hypothesis import strategies as st

from models_registry.audit import chain, triggers
from models_registry.audit.writing import append, last_link, record
from models_registry.models import AuditRecord
from models_registry.models.audit import AppendOnly

from .trail import last, links

pytestmark = [pytest.mark.django_db, pytest.mark.each_database]
TABLE = triggers.TABLE


@pytest.fixture(autouse=True)
def trail() -> None:
    for number in range(5):
        record("changed", "preset", f"p{number}", id=number, changes={"ctx_size": (1, number)})


@pytest.mark.parametrize(
    "deed",
    [
        lambda: AuditRecord.objects.update(actor="nobody"),
        lambda: AuditRecord.objects.all().delete(),
        lambda: AuditRecord.objects.filter(number=3).delete(),
        lambda: AuditRecord.objects.bulk_create([]),
        lambda: AuditRecord.objects.create(number=99),
        lambda: last().save(),
        lambda: last().delete(),
    ],
)
def test_the_orm_refuses(deed: Any) -> None:
    with pytest.raises(AppendOnly):
        deed()


@pytest.mark.parametrize(
    "statement",
    [
        f"UPDATE {TABLE} SET actor = 'nobody' WHERE number = 3",
        f"DELETE FROM {TABLE} WHERE number = 3",
        f"DELETE FROM {TABLE}",
    ],
)
def test_the_database_refuses(statement: str) -> None:
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        connection.cursor().execute(statement)

    assert AuditRecord.objects.count() == 5


def test_the_database_refuses_to_write_a_number_again() -> None:
    again = "INSERT OR REPLACE" if connection.vendor == "sqlite" else "INSERT"
    columns = ", ".join(connection.ops.quote_name(f.column) for f in AuditRecord._meta.fields)

    with pytest.raises(DatabaseError), transaction.atomic():
        connection.cursor().execute(
            f"{again} INTO {TABLE} ({columns}) SELECT {columns} FROM {TABLE} WHERE number = 3"
        )


def test_only_what_a_pruning_names_can_be_deleted() -> None:
    append([], prunes_through=2)  # nothing is done, so nothing is recorded
    assert last_link()[0] == 5

    from models_registry.audit.writing import Entry

    append([Entry(chain.PRUNED, "audit trail", "", "1 to 2")], prunes_through=2)
    connection.cursor().execute(f"DELETE FROM {TABLE} WHERE number <= 2")
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        connection.cursor().execute(f"DELETE FROM {TABLE} WHERE number = 3")

    assert AuditRecord.objects.count() == 4


def test_it_is_sound_as_it_was_written() -> None:
    verdict = chain.verify(links())

    assert (verdict.problems, verdict.count, verdict.last) == ([], 5, 5)
    assert (verdict.last, verdict.digest) == last_link()


def test_the_digest_is_what_the_documentation_says() -> None:
    before = "0" * 64
    for row in AuditRecord.objects.order_by("number").values():
        values = [row[name] for name in chain.COLUMNS]
        values[1] = row["at"].strftime("%Y-%m-%dT%H:%M:%S.%f+00:00")
        text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
        before = hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()
        assert row["digest"] == before


@pytest.mark.parametrize("column", [name for name in chain.COLUMNS if name != "number"])
def test_an_altered_record_is_found(column: str) -> None:
    found = links()
    at = chain.COLUMNS.index(column)
    values = [*found[2].values]
    values[at] = "x" if isinstance(values[at], str) else 7
    found[2] = chain.Link(tuple(values), found[2].digest)

    (problem,) = chain.verify(found).problems
    assert problem.startswith("3 is not as it was written")


def test_a_record_altered_in_the_database_is_found() -> None:
    triggers.remove(connection)
    connection.cursor().execute(f"UPDATE {TABLE} SET actor = 'nobody' WHERE number = 3")
    assert triggers.missing(connection) == list(triggers.NAMES)
    triggers.install(connection)

    assert triggers.missing(connection) == []
    assert "3 is not as it was written" in chain.verify(links()).problems[0]


def test_one_that_was_left_out_put_in_or_moved_is_found() -> None:
    whole = links()

    assert chain.verify([*whole[:2], *whole[3:]]).problems == [
        "between 2 and 4 records are missing"
    ]
    assert chain.verify([whole[0], *whole]).problems
    assert chain.verify([whole[0], whole[2], whole[1], *whole[3:]]).problems
    assert chain.verify(whole[2:]).problems == [
        "it begins with 3, where none were removed on record"
    ]
    assert chain.verify(whole[2:], is_part=True).sound


def test_a_trail_that_was_cut_or_written_anew_lacks_a_digest_that_was_noted() -> None:
    whole = links()
    noted = whole[-1].digest

    assert chain.verify(whole, expect=noted).sound
    assert not chain.verify(whole[:-1], expect=noted).sound


@given(
    st.lists(
        st.one_of(
            st.none(), st.integers(0, 2**62), st.text(st.characters(exclude_categories=["Cs"]))
        )
    )
)
def test_what_is_digested_is_plain_json(values: list[Any]) -> None:
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))

    assert chain.digest("b", values) == hashlib.sha256(f"b\n{text}".encode()).hexdigest()
