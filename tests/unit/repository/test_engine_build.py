"""How the engine is built: with what the CPU has, less what crashes."""

from __future__ import annotations

import platform
import subprocess

import pytest

from scripts import engine


@pytest.fixture
def flags(monkeypatch):
    monkeypatch.delenv("CXXFLAGS", raising=False)
    monkeypatch.setenv("CFLAGS", "-O2")
    return lambda text: monkeypatch.setattr(engine, "cpu_flags", lambda: text)


def test_amx_is_left_out_where_the_cpu_has_it(flags):
    requirement = engine.engine_requirement()
    flags("avx512f")
    other = engine.key(requirement)
    flags("amx_bf16 amx_int8 amx_tile avx512f")

    environment = engine.build_environment()

    assert environment["CFLAGS"] == f"-O2 {engine.WITHOUT_AMX}"
    assert environment["CXXFLAGS"] == engine.WITHOUT_AMX
    assert engine.key(requirement) != other


def test_a_cpu_without_amx_is_built_for_as_it_is(flags):
    flags("avx2 fma")

    environment = engine.build_environment()

    assert environment["CFLAGS"] == "-O2"
    assert "CXXFLAGS" not in environment


@pytest.mark.skipif(platform.machine() != "x86_64", reason="AMX is x86's")
def test_the_compiler_leaves_amx_out_whatever_the_cpu_has():
    command = ["g++", "-march=sapphirerapids", *engine.WITHOUT_AMX.split()]
    shown = subprocess.run(
        [*command, "-dM", "-E", "-x", "c++", "/dev/null"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "__AVX512F__" in shown.stdout
    assert "AMX" not in shown.stdout
