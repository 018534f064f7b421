"""What a child gets of our environment."""

from __future__ import annotations

from scheduler.runtime.engines.llama_server import inherited_environment


def test_no_secret_and_no_option_reaches_a_child_by_the_environment() -> None:
    ours = {
        "PATH": "/bin",
        "HOME": "/home/corral",
        "CORRAL_SECRET_KEY": "s",
        "DATABASE_URL": "d",
        "HF_TOKEN": "t",
        "LLAMA_ARG_CTX_SIZE": "9",
        "CUDA_VISIBLE_DEVICES": "1",
    }

    child = inherited_environment(ours)

    assert child["PATH"] == "/bin"
    assert child["CUDA_VISIBLE_DEVICES"] == "1"
    assert not child.keys() & {"CORRAL_SECRET_KEY", "DATABASE_URL", "HF_TOKEN"}
    assert not any(name.startswith("LLAMA_") for name in child)


def test_a_config_file_of_the_account_adds_no_option_that_nobody_here_sees() -> None:
    """llama-server reads llama.cpp/config.ini in XDG_CONFIG_HOME, or in ~/.config."""
    child = inherited_environment({"HOME": "/home/corral", "XDG_CONFIG_HOME": "/home/corral/cfg"})

    assert child["XDG_CONFIG_HOME"] == "/nonexistent"
