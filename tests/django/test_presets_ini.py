"""INI files taken over into the registry, and written from it."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from models_registry import index_jobs, staging
from models_registry.access import Asker
from models_registry.engine_path import llama_server
from models_registry.errors import ImportRefused, ManagementRefused
from models_registry.imports.plan import ImportReport
from models_registry.ini.exporting import export_ini, name_in_llama_cpp
from models_registry.ini.importing import import_ini
from models_registry.launch import effective_options, effective_policy_of, launch_specs
from models_registry.models import Alias, GlobalPreset, ModelFile, Preset, Source
from models_registry.options.catalogue import Kind, Option, engine_catalogue
from models_registry.options.policy import Policy
from models_registry.options.preset_options import COLUMNS
from models_registry.options.refused_options import refusal
from tests.unit.registry.known import CATALOGUE

from .registry_rows import gguf, make_model_file, make_preset, use_stand_in_engine

pytestmark = pytest.mark.django_db

ADMIN = Asker("someone", everything=True)


@pytest.fixture(autouse=True)
def folder(settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    use_stand_in_engine(settings, monkeypatch, tmp_path)
    gguf(tmp_path / "a.gguf")
    return tmp_path


def take(text: str, folder: Path, **how: Any) -> ImportReport:
    return import_ini(text, ADMIN, folder=str(folder), **how)


def test_what_it_says_becomes_the_presets_own_fields(folder: Path) -> None:
    report = take(
        "[*]\nthreads = 2\n# corral: keep-alive = 60\n"
        "[a]\nm = a.gguf\nc = 512\nnp = -1\nembeddings = on\nno-warmup = 1\ntemp = 0.5\n"
        "load-on-startup = 0\nstop-timeout = 3\ntags = x, y\ndedup-cache-models = 1\nalias = z\n"
        "# corral: priority = high\n# corral: pinned = false\n",
        folder,
    )

    assert (report.added, report.changed, report.skipped) == (["a"], ["[*]"], [])
    preset = Preset.objects.get()
    assert (preset.ctx_size, preset.parallel, preset.embeddings) == (512, None, True)
    assert (preset.load_on_startup, preset.stop_timeout, preset.priority) == (False, 3.0, "high")
    assert (preset.pinned, preset.tags, preset.source) == (False, "x, y", Source.ADMIN)
    assert set(preset.extra_options.splitlines()) == {
        "parallel = -1",
        "warmup = false",
        "temperature = 0.5",
        "dedup-cache-models = true",
        "pinned = false",
    }
    assert GlobalPreset.objects.get().options == "threads = 2\nkeep-alive = 60"
    assert Alias.objects.get().name == "z"


def test_what_a_preset_says_otherwise_stays_unless_it_is_to_be_replaced(folder: Path) -> None:
    preset = make_preset(
        "a",
        make_model_file(folder / "old.gguf"),
        ctx_size=16,
        extra_options="# mine\ntemp = 0.1\nthreads-batch = 4\nno-mmap = 1",
        tags="t",
    )
    GlobalPreset.objects.create(options="# all\nthreads = 3")
    text = (
        "[*]\nthreads = 2\ntop-k = 1\n"
        "[a]\nm = a.gguf\nc = 2\ntemp = 0.2\nlm = mmap\nthreads-batch = 4\ntags = u\n"
        "[b]\nm = a.gguf\n"
    )

    kept = take(text, folder)

    assert kept.added == ["b"]
    assert [skipped.name for skipped in kept.skipped] == ["[*]", "a"]
    assert "threads is 3, not 2" in kept.skipped[0].why
    assert "ctx-size is 16, not 2" in kept.skipped[1].why
    preset.refresh_from_db()
    assert (preset.ctx_size, preset.tags) == (16, "t")

    replaced = take(text, folder, replace=True)

    assert replaced.changed == ["[*]", "a"]
    preset.refresh_from_db()
    assert (preset.ctx_size, preset.tags) == (2, "u")
    assert preset.model_file.path == str(folder / "a.gguf")
    assert preset.extra_options == (
        "# mine\nthreads-batch = 4\ntemperature = 0.2\nload-mode = mmap"
    )
    assert GlobalPreset.objects.get().options == "# all\nthreads = 2\ntop-k = 1"
    assert take(text, folder, replace=True).changed == []


def test_what_is_unset_is_patched_without_being_asked(folder: Path) -> None:
    make_preset("found", make_model_file(folder / "f.gguf"), source=Source.MODELS_DIR)

    report = take("[found]\nc = 2\n", folder)

    assert report.changed == ["found"]
    assert (Preset.objects.get().ctx_size, Preset.objects.get().source) == (2, Source.MODELS_DIR)


def test_a_dry_run_says_it_and_does_nothing(folder: Path) -> None:
    report = take("[*]\nthreads = 2\n[a]\nm = a.gguf\n", folder, dry_run=True)

    assert report.lines() == ["would add a", "would change [*]"]
    assert not Preset.objects.exists()
    assert not ModelFile.objects.exists()
    assert not GlobalPreset.objects.exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[a]\nc = 16\n", "names no model"),
        ("[a]\nm = none.gguf\n", "This file cannot be read"),
        ("[a]\nm = a.gguf\nctk = q4_0\nctv = q4_0\nfa = off\n", "needs flash attention"),
        ("[taken]\nm = a.gguf\n", "An alias has this name"),
        ("[a]\nhf = u/r\n", "is not downloaded"),
    ],
)
def test_a_section_that_cannot_be_taken_is_told_and_the_rest_goes_on(
    folder: Path, text: str, words: str
) -> None:
    old = make_preset("old", make_model_file(folder / "old.gguf"))
    Alias.objects.create(name="taken", preset=old)

    report = take(f"{text}[good]\nm = a.gguf\n", folder)

    (skipped,) = report.skipped
    assert words in skipped.why
    assert report.added == ["good"]


def test_a_faulty_file_changes_nothing(folder: Path) -> None:
    with pytest.raises(ImportRefused, match="line 4, column 1: x-y"):
        take("[a]\nm = a.gguf\n[b]\nx-y = 1\n", folder)

    assert not Preset.objects.exists()
    assert take("[a]\nm = a.gguf\nx-y = 1\n", folder, ignore_unknown=True).added == ["a"]


def test_who_may_not_import_is_refused(folder: Path) -> None:
    with pytest.raises(ManagementRefused, match="may not import"):
        import_ini("[a]\nm = a.gguf\n", Asker("guest"), folder=str(folder))


def test_the_commands_write_and_read_files(folder: Path) -> None:
    make_preset("a", make_model_file(folder / "a.gguf"), ctx_size=5)
    make_preset("b", ModelFile.objects.get())
    file = folder / "out.ini"

    call_command("export_presets", "a", output=file)
    Preset.objects.all().delete()
    out = StringIO()
    call_command("import_presets", file, stdout=out)

    assert out.getvalue() == "added a\n"
    assert Preset.objects.get().ctx_size == 5
    with pytest.raises(CommandError, match="no preset is called nobody"):
        call_command("export_presets", "nobody")
    file.write_text("[a]\nctx-sze = 1\n")
    with pytest.raises(CommandError, match=r"out.ini: line 2") as caught:
        call_command("import_presets", file)
    assert "did you mean ctx-size?" in str(caught.value)
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("import_presets", folder / "none.ini")


def test_a_stop_timeout_of_0_is_taken_started_with_and_written(folder: Path) -> None:
    """It kills at once: it is not the same as saying nothing."""
    take("[*]\nstop-timeout = 4\n[a]\nm = a.gguf\nstop-timeout = 0\n[b]\nm = a.gguf\n", folder)

    assert Preset.objects.get(name="a").stop_timeout == 0
    assert {s.preset: s.stop_timeout_seconds for s in launch_specs()} == {"a": 0.0, "b": 4.0}
    assert "\nstop-timeout = 0\n" in export_ini()


def test_the_command_ends_with_an_error_for_a_section_that_is_not_taken(folder: Path) -> None:
    file = folder / "some.ini"
    file.write_text("[a]\nm = a.gguf\nc = 256\n[without]\nc = 512\n")

    with pytest.raises(CommandError, match="1 of its models were not taken"):
        call_command("import_presets", file, "--dry-run", stdout=StringIO())
    assert not Preset.objects.exists()

    with pytest.raises(CommandError, match="1 of its models were not taken"):
        call_command("import_presets", file, stdout=StringIO())
    assert [preset.name for preset in Preset.objects.all()] == ["a"]

    file.write_text("[a]\nc = 1024\n")
    with pytest.raises(CommandError, match="1 of its models were not taken"):
        call_command("import_presets", file, stdout=StringIO())
    call_command("import_presets", file, "--replace", stdout=StringIO())
    assert Preset.objects.get().ctx_size == 1024


def test_what_is_written_says_where_llama_cpp_would_read_otherwise(folder: Path) -> None:
    base = make_preset(
        "user/repo:Q4_0-mine",
        make_model_file(folder / "a#b.gguf"),
        extra_options="samplers = top_k;top_p",
        stop_timeout=2.5,
        request_strip="seed",
    )
    heir = make_preset("heir", base.model_file, base=base, priority="low", stop_timeout=3.0)
    for name in ("gpt-4o*", "plain"):
        Alias.objects.create(name=name, preset=heir)

    text = export_ini()

    assert text.startswith("# Presets of Corral")
    assert "\nalias = gpt-4o*,plain\n# llama.cpp takes gpt-4o* for a name, Corral" in text
    assert "\n# llama.cpp reads this name as user/repo:MINE\n[user/repo:Q4_0-mine]\n" in text
    assert f'\nmodel = "{folder}/a#b.gguf"\n' in text
    assert "\n# llama.cpp would cut the next value off at its first ; or #: samplers\n" in text
    assert text.count('\nsamplers = "top_k;top_p"\n') == 2
    assert "\n# corral: stop-timeout = 2.5\n" in text
    assert "\nstop-timeout = 3\n" in text
    assert "\n# corral: priority = low\n" in text
    assert "\n# not in this file: request filters\n" in text


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("qwen", "qwen"), ("qwen:latest", "qwen:LATEST"), ("x:y:z", "x:y:Z"), ("q:q4.k", "q:K"),
        ("a/b:UD-Q4_K_XL", "a/b:Q4_K_XL"), ("k:7b-instruct-q5_1", "k:Q5_1"), ("n:", "n:"),
    ],
)  # fmt: skip
def test_a_name_as_llama_cpp_was_seen_to_list_it(name: str, read: str) -> None:
    assert name_in_llama_cpp(name) == read


def test_a_name_that_llama_cpp_reads_otherwise_is_told(folder: Path) -> None:
    for name in ("qwen:latest", "qwen"):
        make_preset(name, make_model_file(folder / f"{name}.gguf"))

    text = export_ini()

    assert "# llama.cpp reads this name as qwen:LATEST\n[qwen:latest]\n" in text
    assert text.count("# llama.cpp reads") == 1


# Round trip --------------------------------------------------------------------------------

TEXTS = st.text(
    st.characters(exclude_categories=["Cc", "Cs"]) | st.sampled_from(';#"\\= '), min_size=1
).filter(lambda text: text.strip(" \t") == text)
FREE_TEXTS = ("samplers", "chat-template", "reasoning-budget-message", "dry-sequence-breaker")


def _values(option: Option) -> st.SearchStrategy[str]:
    match option.kind:
        case Kind.FLAG:
            return st.sampled_from(["true", "false"])
        case Kind.CHOICE:
            return st.sampled_from(option.choices)
        case Kind.INT:
            return st.just("2")
        case Kind.FLOAT:
            return st.sampled_from(["0.5", "1", "3"])
        case Kind.TEXT | Kind.PAIR:
            return TEXTS


OPTIONS = {
    option.key: _values(option)
    for option in CATALOGUE.options
    if not refusal(option)
    and not option.removed
    and option.key not in ("sleep-idle-seconds", "cache-type-v")
    if option.kind is not Kind.TEXT or option.key in FREE_TEXTS
}


def _some(options: dict[str, st.SearchStrategy[str]]) -> st.SearchStrategy[dict[str, str]]:
    keys = st.lists(st.sampled_from(sorted(options)), max_size=5, unique=True)
    return keys.flatmap(lambda chosen: st.fixed_dictionaries({k: options[k] for k in chosen}))


IN_FILE = _some(OPTIONS)
IN_LINES = _some({key: each for key, each in OPTIONS.items() if key not in COLUMNS.values()})
POLICY_IN_FILE = st.fixed_dictionaries(
    {},
    optional={
        "pinned": st.sampled_from(["true", "false"]),
        "priority": st.sampled_from(["low", "normal", "high"]),
        "replicas": st.sampled_from(["1", "2"]),
        "keep-alive": st.sampled_from(["-1", "0.25", "60"]),
        "load-on-startup": st.sampled_from(["true", "false"]),
        "stop-timeout": st.sampled_from(["2", "2.5"]),
        "tags": st.sampled_from(["a", "a,b c"]),
        "unlisted": st.sampled_from(["true", "false"]),
        "dedup-cache-models": st.sampled_from(["true", "false"]),
        "placement": st.sampled_from(["best", "now"]),
        "readiness-probe": st.sampled_from(["true", "false"]),
        "context-cap": st.just("512"),
        "queue-limit": st.just("0"),
    },
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "ctx_size": st.sampled_from([0, 4096]),
        "parallel": st.just(2),
        "flash_attn": st.just("on"),
        "embeddings": st.booleans(),
        "sleep_idle": st.just(30),
        "pinned": st.booleans(),
        "priority": st.sampled_from(["low", "high"]),
        "max_wait": st.just(7.5),
        "unlisted": st.booleans(),
        "tags": st.just("c, d"),
    },
)
ROWS = st.fixed_dictionaries(
    {"lines": IN_LINES, "file": IN_FILE, "policy": POLICY_IN_FILE, "fields": FIELDS}
)


def _lines(options: dict[str, str]) -> str:
    return "\n".join(f"{key} = {value}" for key, value in options.items())


def _row(name: str, model_file: ModelFile, said: dict[str, Any], **more: Any) -> Preset:
    return make_preset(
        name,
        model_file,
        extra_options=_lines(said["lines"]),
        file_options=said["file"] | said["policy"],
        **said["fields"],
        **more,
    )


def _counts() -> dict[str, tuple[dict[str, str], Policy]]:
    catalogue = engine_catalogue(llama_server())
    return {
        preset.name: (
            {option.key: option.value for option in effective_options(preset, catalogue)},
            replace(effective_policy_of(preset), said_by={}),
        )
        for preset in Preset.objects.all()
    }


@settings(
    max_examples=12,
    phases=(Phase.explicit, Phase.generate),  # a smaller example takes minutes to find
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.data())
def test_what_is_written_and_read_again_counts_the_same(folder: Path, data: st.DataObject) -> None:
    _clear()
    model_file = ModelFile.objects.create(
        path=str(folder / "a.gguf"), mmproj=str(gguf(folder / "p.gguf"))
    )
    said = data.draw(st.fixed_dictionaries({"base": ROWS, "heir": ROWS}))
    of_all = data.draw(IN_FILE)
    GlobalPreset.objects.create(
        file_options=data.draw(POLICY_IN_FILE) | data.draw(IN_FILE), options=_lines(of_all)
    )
    base = _row("base", model_file, said["base"])
    _row("user/heir:Q4_0", model_file, said["heir"], base=base)
    before, text = _counts(), export_ini()
    _clear()

    report = import_ini(text, ADMIN)

    assert (report.skipped, sorted(report.added)) == ([], ["base", "user/heir:Q4_0"])
    assert _counts() == before
    assert export_ini() == text


def _clear() -> None:
    Preset.objects.filter(base__isnull=False).delete()
    Preset.objects.all().delete()
    ModelFile.objects.all().delete()
    GlobalPreset.objects.all().delete()


def test_a_hundred_sections_cost_few_queries(
    folder: Path, django_assert_max_num_queries: Any
) -> None:
    text = "".join(
        f"[p{number}]\nm = a.gguf\nc = 500\nalias = q{number}\n" for number in range(100)
    )

    with django_assert_max_num_queries(48):
        assert len(take(text, folder).added) == 100
    with django_assert_max_num_queries(48):
        report = take(text.replace("c = 500", "c = 600"), folder, replace=True)
    assert len(report.changed) == 100
    assert Preset.history.filter(history_change_reason="someone").count() == 200
    assert set(Preset.objects.values_list("version", "ctx_size")) == {(2, 600)}


def test_what_somebody_saves_while_an_import_is_checked_is_not_written_over(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = []

    def check(preset: Preset, beside: Any) -> None:
        checks.append(preset.name)
        if len(checks) == 1:
            make_preset("a", make_model_file(folder / "other.gguf"))

    monkeypatch.setattr(staging, "check_preset", check)

    report = take("[a]\nm = a.gguf\n", folder)

    assert report.added == []
    assert "it runs" in report.skipped[0].why
    assert Preset.objects.get().model_file.path.endswith("other.gguf")


def test_the_headers_of_imported_files_are_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    ordered = []
    monkeypatch.setattr(index_jobs, "order", lambda: ordered.append("index"))

    with django_capture_on_commit_callbacks(execute=True):
        take("[a]\nm = a.gguf\n", folder)

    assert ordered == ["index"]


def test_of_thousands_of_faulty_lines_the_first_hundred_are_told(folder: Path) -> None:
    text = "[a]\n" + "no key\n" * 20_000

    with pytest.raises(ImportRefused) as refused:
        take(text, folder)

    lines = str(refused.value).splitlines()
    assert lines[0].startswith("line 2, column 1")
    assert (len(lines), lines[-1]) == (101, "and 19900 more")


def test_of_hundreds_of_warnings_the_first_hundred_are_told(folder: Path) -> None:
    text = "[a]\nm = a.gguf\n" + "".join(f"x-{number} = 1\n" for number in range(300))

    notes = take(text, folder, ignore_unknown=True).notes

    assert (len(notes), notes[-1]) == (101, "and 200 more")


def test_an_export_says_what_it_cannot_carry(folder: Path) -> None:
    row = make_model_file(folder / "x.gguf")
    make_preset("a", row, environment="A=1", request_strip="seed")

    text = export_ini()

    head = text.partition("[a]")[0]
    assert "Environment variables, request filters and groups cannot be written here" in head
    assert "# not in this file: environment variables, request filters" in text
