"""Schemathesis reads the OpenAPI document and sends what it allows, and what it does not: nothing
breaks, and every answer is as the document says."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import pytest
import schemathesis
from django.core.wsgi import get_wsgi_application
from django.db import transaction
from django.urls import resolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode, checks

from models_registry.models import Alias, Measurement, ModelFile, Preset
from proxy.models import ApiKey
from routerproj.api import api
from scheduler.models import DecisionRecord, InstanceRecord
from scheduler.protocol import ErrorBody, InstanceState, QueueEntry, SnapshotState

from .control_socket import StandInScheduler
from .management import Manager
from .registry_rows import gguf

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.slow,
    # The client of these tests is synchronous, and CSV is streamed to an ASGI server
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume asynchronous iterators"),
]

EXAMPLES, FEW = (100, 20) if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else (4, 2)
"""Requests to each operation: of what is looked for in their shape, and of what is not."""

checks.load_all_checks()

schema = schemathesis.openapi.from_dict(api.get_openapi_schema(path_prefix="/router/api/"))
schema.app = get_wsgi_application()
OPERATIONS = [result.ok() for result in schema.get_all_operations()]
LABELS = [operation.label for operation in OPERATIONS]

CONFORMS = [
    checks.not_a_server_error,
    checks.CHECKS.get_one("status_code_conformance"),
    checks.CHECKS.get_one("content_type_conformance"),
    checks.CHECKS.get_one("response_schema_conformance"),
]
REJECTS = [*CONFORMS, checks.CHECKS.get_one("negative_data_rejection")]

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
NAME = "user/repo:Q4_K_M"


@pytest.fixture
def rows(preset: Preset, scheduler: StandInScheduler, tmp_path: Any) -> dict[str, Any]:
    """One row of each kind, and what of them may stand in a path or a body."""
    Alias.objects.create(name="short", preset=preset)
    child = InstanceRecord.objects.create(preset=NAME, started_at=NOW, argv=["--model", "a"])
    DecisionRecord.objects.create(at=NOW, kind="start", preset=NAME, instance=child, reason="asked")
    Measurement.objects.create(
        fingerprint="f", preset=NAME, state="measured", ordered_at=NOW, used_at=NOW,
        devices=[{"device": "Host", "model": 1, "context": 2, "compute": 3}],
    )  # fmt: skip
    instance = InstanceState(1, NAME, "loaded", 1, 0, 4, 77, False, 1.0, 2.0, 0.5)
    scheduler.snapshot = SnapshotState(1, 2, 4, False, [instance], [QueueEntry("b", 1, 1.0)], [])
    return {
        "name": [NAME, "short"],
        "id": [preset.model_file.pk],
        "public_id": [ApiKey.objects.get().public_id],
        "model_file": [preset.model_file.pk],
        "preset": [NAME],
        "path": [str(gguf(tmp_path / "more.gguf"))],
        "extra_options": ["top-k = 4"],
        "cache_type_k": ["q8_0"],
        "n_gpu_layers": ["all", "3"],
        "version": [preset.version],
        "team": ["default"],
    }


def known_in(values: Any, rows: dict[str, Any], draw: Any) -> Any:
    """Some of the values as they are in the database: chance alone does not meet them."""
    if not isinstance(values, dict):
        return values
    return {
        key: draw(st.sampled_from(rows[key])) if key in rows and draw(st.booleans()) else value
        for key, value in values.items()
    }


def ask(case: Any, manager: Manager, checked: list[Any]) -> Any:
    """Nothing of it stays: each request meets the same rows."""
    with transaction.atomic():
        response = case.call(headers=manager.headers)
        transaction.set_rollback(True)
    case.validate_response(response, checks=checked)
    return response


quick = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
quicker = settings(quick, max_examples=FEW)


def rows_count() -> list[int]:
    return [model.objects.count() for model in (Preset, Alias, ModelFile, ApiKey)]


@pytest.mark.parametrize("operation", OPERATIONS, ids=LABELS)
def test_what_the_document_allows_breaks_nothing(operation, manager, rows):
    @quick
    @given(case=operation.as_strategy(), data=st.data())
    def asked(case, data):
        case.path_parameters = known_in(case.path_parameters, rows, data.draw)
        case.body = known_in(case.body, rows, data.draw)
        ask(case, manager, CONFORMS)

    asked()


@pytest.mark.parametrize("operation", OPERATIONS, ids=LABELS)
def test_what_the_document_does_not_allow_is_refused(operation, manager, rows):
    if not (operation.body or operation.query or operation.path_parameters):
        pytest.skip("everything is allowed that can be sent here")

    @quick
    @given(case=operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))
    def asked(case):
        ask(case, manager, REJECTS)

    asked()


@pytest.mark.parametrize("operation", OPERATIONS, ids=LABELS)
@pytest.mark.parametrize("refusal", [None, ErrorBody("model_backing_off", "wait", 3.0)])
def test_a_scheduler_that_refuses_or_is_away_breaks_nothing(
    operation, manager, rows, scheduler, refusal
):
    scheduler.refuses = refusal
    if refusal is None:
        scheduler.socket.unlink()

    @quicker
    @given(case=operation.as_strategy(), data=st.data())
    def asked(case, data):
        case.path_parameters = known_in(case.path_parameters, rows, data.draw)
        with transaction.atomic():
            response = case.call(headers=manager.headers)
            transaction.set_rollback(True)
        assert response.status_code != 500, response.text
        case.validate_response(response, checks=CONFORMS[1:])

    asked()


def is_routed(case) -> bool:
    """A line break in a name, a number below 0: no route takes them, so there is nothing there."""
    return resolve(unquote(case.formatted_path)).url_name is not None


@pytest.mark.parametrize("operation", OPERATIONS, ids=LABELS)
def test_whatever_is_sent_without_a_key_is_refused_and_changes_nothing(operation, manager, rows):
    before = rows_count()

    @quicker
    @given(case=operation.as_strategy())
    def asked(case):
        assert case.call().status_code == (401 if is_routed(case) else 404)

    asked()
    assert rows_count() == before
