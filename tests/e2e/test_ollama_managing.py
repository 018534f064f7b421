"""Ollama's own client changes models on its own port: it pulls, makes, copies and deletes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ollama import Client, ResponseError

from tests.support.gateway import Gateway, gateway, ollama_port
from tests.support.hub import Hub, downloads_from, hub
from tests.support.tiny_model import tiny_model

pytestmark = [pytest.mark.engine, pytest.mark.slow]

HI = [{"role": "user", "content": "Hello"}]
FEW = {"num_predict": 4}
PIRATE = "Speak like a pirate."


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("published"), "tiny-Q8_0", seed=9)


@pytest.fixture(scope="module")
def serving(model: Path) -> Iterator[Hub]:
    with hub() as found:
        found.ollama("library/tiny", "1b", {"model": model.read_bytes(), "template": b"{{ .P }}"})
        found.repository("team/tiny", {model.name: model.read_bytes()})
        yield found


@pytest.fixture(scope="module")
def running(serving: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("managing")
    env = downloads_from(serving, folder) | {"CORRAL_OLLAMA_REGISTRY": serving.url}
    with gateway(folder, args=["--ollama-port", "0"], env=env) as found:
        yield found


@pytest.fixture(scope="module")
def client(running: Gateway) -> Iterator[Client]:
    """With an admin key, on Ollama's port."""
    with client_with(running, running.admin_key) as found:
        yield found


@pytest.fixture(scope="module")
def user(running: Gateway) -> Iterator[Client]:
    """With a key that uses models."""
    with client_with(running, running.key) as found:
        yield found


def client_with(running: Gateway, key: str) -> Client:
    host = f"http://127.0.0.1:{ollama_port(running)}"
    return Client(host, headers={"Authorization": f"Bearer {key}"}, timeout=60)


def said(user: Client, model: str) -> str:
    return user.chat(model, HI, options=FEW).message.content or ""


@pytest.mark.parametrize("name", ["tiny:1b", "hf.co/team/tiny:Q8_0"])
def test_it_pulls_a_model_and_chats_with_it(
    user: Client, client: Client, model: Path, name: str
) -> None:
    steps = list(client.pull(name, stream=True))

    assert [step.status for step in steps][-1] == "success"
    size = model.stat().st_size
    assert any(step.completed == step.total == size and step.digest for step in steps)
    assert said(user, name)
    assert client.pull(name).status == "success"
    client.delete(name)
    with pytest.raises(ResponseError, match="not found"):
        said(user, name)


def test_a_pull_that_fails_raises(client: Client) -> None:
    with pytest.raises(ResponseError, match="pull model"):
        client.pull("nobody:1b")
    with pytest.raises(ResponseError, match="pull model"):
        list(client.pull("nobody:1b", stream=True))


def test_it_makes_copies_and_deletes_a_model(
    running: Gateway, user: Client, client: Client
) -> None:
    steps = list(
        client.create(
            "brief",
            from_="alpha",
            parameters={"temperature": 0.1},
            system=PIRATE,
            stream=True,
        )
    )
    client.copy("brief", "twin")

    assert steps[-1].status == "success"
    assert said(user, "brief")
    assert client.show("brief").modelfile.count(PIRATE) == 1
    for body in ({"messages": HI}, {"messages": [{"role": "system", "content": "Sing."}, *HI]}):
        shown = running.client.request("POST", "/apply-template", {"model": "brief", **body}).json
        assert ("pirate" in shown["prompt"]) is (body["messages"] == HI)
    wishes = ({"model": "brief"}, {"model": "alpha", "system": PIRATE}, {"model": "alpha"})
    counts = [
        running.client.request(
            "POST", "/v1/messages/count_tokens", {"messages": HI, "max_tokens": 1, **wish}
        ).json["input_tokens"]
        for wish in wishes
    ]
    assert counts[0] == counts[1] != counts[2]
    assert said(user, "twin")
    assert {"brief:latest", "twin:latest"} <= {each.model for each in client.list().models}
    assert client.delete("brief").status == "success"
    assert client.delete("twin").status == "success"
    with pytest.raises(ResponseError, match="not found"):
        client.delete("twin")


def test_it_hands_over_a_file_and_makes_a_model_of_it(
    running: Gateway, user: Client, client: Client, model: Path
) -> None:
    digest = client.create_blob(model)
    made = client.create("mine", files={model.name: digest})

    assert made.status == "success"
    assert said(user, "mine")
    client.delete("mine")
    kept = running.var / "models" / "uploads"
    assert [path for path in kept.rglob("*") if path.is_file()] == []


def test_it_is_told_what_it_may_not_and_what_cannot_be(user: Client, client: Client) -> None:
    for asked in (
        lambda: user.delete("alpha"),
        lambda: user.copy("alpha", "x"),
        lambda: user.create("x", from_="alpha"),
        lambda: user.pull("tiny:9b"),
    ):
        with pytest.raises(ResponseError, match="may not manage") as caught:
            asked()
        assert caught.value.status_code == 403
    assert user.pull("alpha").status == "success"
    with pytest.raises(ResponseError, match="would publish"):
        client.push("alpha")
    with pytest.raises(ResponseError, match="would come back"):
        client.delete("alpha")
