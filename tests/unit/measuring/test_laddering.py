"""What is asked of the ledger for the form's slider."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from models_registry.engines import EngineKind, EngineSetup
from scheduler.core.sizes import OpenShape
from scheduler.measuring.laddering import ladder_of
from scheduler.measuring.shapes import shape_of

from .test_estimating import spec


def test_an_open_preset_is_looked_at_with_all_contexts_that_its_model_knows(tmp_path: Path) -> None:
    ladder = ladder_of(spec(tmp_path))

    assert ladder is not None
    shape = shape_of(ladder.shape)
    assert isinstance(shape, OpenShape)
    assert shape.contexts[0] == 512
    assert {4096, 8192} <= {*shape.contexts}
    assert (ladder.said, ladder.context) == (None, 0)
    assert ladder.layers[0] == {}
    assert ladder.layers[-1] == {"CUDA0": 6, "CUDA1": 5}


@pytest.mark.parametrize(("layers", "said"), [("4", {"CUDA0": 2, "CUDA1": 2}), ("0", {})])
def test_what_the_options_say_is_looked_at_as_it_is(
    tmp_path: Path, layers: str, said: dict[str, int]
) -> None:
    ladder = ladder_of(spec(tmp_path, n_gpu_layers=layers, ctx_size="3000"))

    assert ladder is not None
    assert (ladder.said, ladder.context) == (said, 3000)
    assert 3000 in shape_of(ladder.shape).contexts  # type: ignore[union-attr]


def test_of_another_engine_there_is_nothing_to_choose(tmp_path: Path) -> None:
    other = replace(spec(tmp_path), engine=EngineSetup(EngineKind.COMMAND))

    assert ladder_of(other) is None
