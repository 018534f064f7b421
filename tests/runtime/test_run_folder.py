"""Every process finds the sockets in the same folder, whatever its environment."""

from __future__ import annotations

import shutil

import pytest

from scheduler.run_folder import (
    LONGEST_FOLDER,
    RECORD,
    UnsafeRunFolder,
    control_socket,
    make_run_folder,
    remove_if_elsewhere,
    run_folder,
)


@pytest.fixture
def var(tmp_path):
    folder = tmp_path / ("long" * 25)
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def bases(tmp_path, monkeypatch):
    """Two environments; a process is in the first one until it moves."""
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folders[0]))
    return folders


def test_a_short_one_is_in_the_state_folder(tmp_path):
    short = tmp_path.parents[len(tmp_path.parents) - 2] / "v"

    assert run_folder(short) == short.resolve() / "run"


def test_a_long_one_is_the_same_in_another_environment(var, bases, monkeypatch):
    made = make_run_folder(var)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(bases[1]))

    assert made.parent == bases[0]
    assert run_folder(var) == make_run_folder(var) == made
    assert control_socket(var).parent == made
    assert (var / RECORD).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in var.iterdir()] == [RECORD]


def test_a_record_in_a_folder_that_is_gone_holds_no_more(var, bases, monkeypatch):
    make_run_folder(var)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(bases[1]))
    shutil.rmtree(bases[0])

    assert make_run_folder(var).parent == bases[1]
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/nonexistent")
    assert run_folder(var).parent == bases[1]


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_record_that_others_may_write_is_not_believed(var, bases, monkeypatch, mode):
    make_run_folder(var)
    (var / RECORD).chmod(mode)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(bases[1]))

    assert run_folder(var).parent == bases[1]


def test_a_record_that_is_a_link_is_not_believed(var, bases, monkeypatch):
    made = make_run_folder(var)
    (var / RECORD).rename(var / "elsewhere")
    (var / RECORD).symlink_to(var / "elsewhere")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(bases[1]))

    assert run_folder(var) != made
    assert make_run_folder(var).parent == bases[1]


def test_the_copy_of_a_state_folder_has_sockets_of_its_own(var, bases):
    made = make_run_folder(var)
    copy = var.with_name("copy" * 25)
    shutil.copytree(var, copy)

    assert make_run_folder(copy) != made


def test_a_planted_folder_is_refused(var, bases):
    run_folder(var).symlink_to(bases[1])

    with pytest.raises(UnsafeRunFolder):
        make_run_folder(var)


def test_nothing_is_left_of_it_at_a_clean_end_unless_it_is_in_use(var, bases):
    made = make_run_folder(var)
    (made / "web.sock").touch()
    remove_if_elsewhere(made, var)
    assert made.is_dir()
    (made / "web.sock").unlink()
    remove_if_elsewhere(made, var)

    assert not made.exists()
    assert len(str(made)) - len(str(bases[0])) < LONGEST_FOLDER // 2
