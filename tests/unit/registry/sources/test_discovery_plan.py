"""Whatever the sources hold, one after the other: people's presets stay, and a plan once carried
out leaves nothing to do."""

from __future__ import annotations

import copy

from hypothesis import given
from hypothesis import strategies as st

from models_registry.models import Source
from models_registry.sources.discovery_plan import FileRow, Plan, PresetRow, Rows, plan
from models_registry.sources.found import Contents, FoundModel
from models_registry.sources.reading import PRECEDENCE, Reading

NAMES = st.sampled_from("abcd")
PATHS = st.sampled_from([f"/nowhere/{number}" for number in range(5)])
FOUND = st.builds(
    FoundModel,
    name=NAMES,
    path=PATHS,
    mmproj=st.sampled_from(["", "/nowhere/eyes"]),
    size=st.integers(0, 2),
    aliases=st.lists(NAMES, max_size=1).map(tuple),
    options=st.sampled_from([{}, {"temperature": "1"}]),
)
SOURCES = st.lists(
    st.tuples(st.sampled_from(PRECEDENCE), st.lists(FOUND, max_size=5)),
    max_size=3,
    unique_by=lambda pair: pair[0],
)


@st.composite
def readings(draw: st.DrawFn) -> Reading:
    """By precedence. No source has one name at one path twice, and only Ollama has several names
    for one path."""
    reading = Reading()
    for source, models in sorted(draw(SOURCES), key=lambda pair: PRECEDENCE.index(pair[0])):
        names = source == Source.OLLAMA
        unique = {(each.path, each.name if names else ""): each for each in models}
        reading.sources.append((source, Contents(models=list(unique.values()))))
    return reading


@st.composite
def registries(draw: st.DrawFn) -> Rows:
    """What people made before anything was found."""
    names = draw(st.lists(NAMES, max_size=3, unique=True))
    paths = [draw(PATHS) for _ in names]
    sources = [draw(st.sampled_from([Source.ADMIN, Source.PRESET_FILE])) for _ in names]
    files = {
        path: FileRow(path, draw(st.sampled_from([*Source.values])), 1, "", "", missing=False)
        for path in paths
    }
    presets = {
        name: PresetRow(name, source, path)
        for name, source, path in zip(names, sources, paths, strict=True)
    }
    aliases = {}
    if names and (spare := sorted(set("abcd") - {*names})) and draw(st.booleans()):
        aliases[spare[0]] = paths[0]
    return Rows(
        files, presets, aliases, lambda path: False, lambda alias: False, lambda alias: True
    )


def carried_out(reading: Reading, rows: Rows, most_new: int) -> list[Plan]:
    """The planner's rows are as they would be stored, but for what is missing."""
    done: list[Plan] = []
    while not done or not done[-1].is_whole:
        done.append(plan(reading, rows, most_new))
        for path in done[-1].missing:
            rows.files[path].missing = True
        assert len(done) < 20
    return done


@given(registries(), st.lists(readings(), min_size=1, max_size=3), st.sampled_from([1, 100]))
def test_a_plan_that_was_carried_out_leaves_nothing_to_do(
    rows: Rows, seen: list[Reading], most_new: int
) -> None:
    persons = copy.deepcopy({n: p for n, p in rows.presets.items()})
    for reading in seen:
        carried_out(reading, rows, most_new)
        carried_out(reading, rows, most_new)  # folders within each other may take a second look
        assert {name: rows.presets[name] for name in persons} == persons
        assert not rows.presets.keys() & rows.aliases.keys()
        assert all(preset.path in rows.files for preset in rows.presets.values())
        assert all(path == row.path for path, row in rows.files.items())

        again = plan(reading, rows, most_new)

        assert not again.changes
        assert again.returned == []


@given(registries(), readings())
def test_every_model_has_a_row_and_a_preset_or_is_told(rows: Rows, reading: Reading) -> None:
    made = plan(reading, rows, 100)

    led_to = {preset.path for preset in rows.presets.values()}
    for _, contents in reading.sources:
        for found in contents.models:
            assert found.path in rows.files
            known = found.path in led_to or rows.files[found.path].source not in (
                *PRECEDENCE, Source.DOWNLOAD,
            )  # fmt: skip
            told = any(found.path in line for line in made.conflicts)
            assert known or told, (found, made.conflicts, led_to)
