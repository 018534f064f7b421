"""The trail is searched, exported, verified and pruned."""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.urls import reverse
from django.utils import timezone

from models_registry.audit import triggers
from models_registry.audit.actors import Door
from models_registry.audit.exporting import HEAD
from models_registry.audit.searching import ACTIONS
from models_registry.audit.writing import record
from models_registry.models import AuditRecord, Preset
from proxy.keys import create_key
from proxy.models import Membership, Team

from ..management import Manager, admin_key, session_of, staff
from .test_nothing_is_forgotten import CASES
from .trail import last

pytestmark = pytest.mark.django_db
EVIL = '<img src=x onerror="alert(1)">'


def run(*arguments: str) -> str:
    output = io.StringIO()
    call_command("audit", *arguments, stdout=output)
    return output.getvalue()


@pytest.fixture
def trail(db: None) -> None:
    for number in range(1, 6):
        record("changed", "preset", f"p{number}", id=number, changes={"ctx_size": (1, number)})


def older(days: int, through: int) -> None:
    """As if they had been written then; without the triggers, which would refuse it."""
    triggers.remove(connection)
    at = connection.ops.adapt_datetimefield_value(timezone.now() - timedelta(days=days))
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {triggers.TABLE} SET at = %s WHERE number <= %s", [at, through])
    _chained_anew()
    triggers.install(connection)


def _chained_anew() -> None:
    from models_registry.audit import chain

    before = chain.BEFORE_THE_FIRST
    for row in AuditRecord.objects.order_by("number").values():
        before = chain.digest(before, chain.Link.of(row).values)
        with connection.cursor() as cursor:
            statement = f"UPDATE {triggers.TABLE} SET digest = %s WHERE number = %s"
            cursor.execute(statement, [before, row["number"]])


# The command line -------------------------------------------------------------------------


def test_it_is_searched(trail: None) -> None:
    record("deleted", "alias", "other")

    assert run("--object", "p3").count("\n") == 1
    assert "changed preset p3 [ctx_size: 1 → 3]" in run("--object", "p3")
    assert run("--type", "alias", "--action", "deleted").count("\n") == 1
    assert run("--limit", "2").count("\n") == 2
    assert run("--since", "2999-01-01") == ""
    assert run("--door", "admin") == ""


def test_a_sound_trail_is_said_to_be_so_and_its_digest_can_be_asked_for(trail: None) -> None:
    noted = run("--verify").split()[-1]
    record("deleted", "alias", "other")

    assert "6 records, 1 to 6" in run("--verify", "--expect", noted)
    with pytest.raises(CommandError, match="no record has the digest"):
        run("--verify", "--expect", "f" * 64)


def test_an_altered_row_is_found_and_missing_triggers_too(trail: None) -> None:
    triggers.remove(connection)
    connection.cursor().execute(f"UPDATE {triggers.TABLE} SET actor = 'x' WHERE number = 2")

    with pytest.raises(CommandError) as error:
        run("--verify")
    assert "2 is not as it was written" in str(error.value)
    assert "triggers" in str(error.value)

    run("--protect")
    with pytest.raises(CommandError) as error:
        run("--verify")
    assert "triggers" not in str(error.value)


def test_an_export_can_be_verified_and_what_is_changed_in_it_is_found(
    trail: None, tmp_path: Path
) -> None:
    file = tmp_path / "trail.jsonl"
    run("--export", str(file))

    assert "5 records" in run("--verify", str(file))
    assert file.stat().st_mode & 0o777 == 0o600
    lines = file.read_text().splitlines()
    assert list(json.loads(lines[0])) == [*HEAD]
    file.write_text("\n".join([*lines[:2], lines[2].replace("p3", "p4"), *lines[3:]]))
    with pytest.raises(CommandError, match="3 is not as it was written"):
        run("--verify", str(file))
    file.write_text("no JSON")
    with pytest.raises(CommandError, match="line 1"):
        run("--verify", str(file))


def test_an_export_for_a_spreadsheet_holds_no_formula(tmp_path: Path) -> None:
    record("changed", "preset", "=cmd()")
    file = tmp_path / "trail.csv"
    run("--export", str(file))

    head, row = csv.reader(file.read_text().splitlines())
    assert tuple(head) == HEAD
    assert "'=cmd()" in row


def test_an_export_overwrites_nothing(trail: None, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")

    with pytest.raises(CommandError, match="exists"):
        run("--export", str(tmp_path / "there"))
    assert (tmp_path / "there").read_text() == "mine"


def test_what_is_old_goes_only_by_a_command_that_leaves_a_record(
    trail: None, tmp_path: Path
) -> None:
    older(100, through=3)
    file = tmp_path / "old.jsonl"

    with pytest.raises(CommandError, match="--discard"):
        run("--prune", "90")
    assert "nothing is older" in run("--prune", "200", "--discard")
    assert "3 records" in run("--prune", "90", "--export", str(file))

    assert list(AuditRecord.objects.values_list("number", flat=True)) == [6, 5, 4]
    assert (last().action, last().object_name, last().note) == (
        "pruned", "records 1 to 3", f"exported to {file}",
    )  # fmt: skip
    assert "3 records, 4 to 6" in run("--verify")
    assert "3 records, 1 to 3" in run("--verify", str(file))
    digest = json.loads(file.read_text().splitlines()[-1])["digest"]
    assert run("--verify", "--expect", digest)


def test_it_is_verifiable_after_all_of_it_was_pruned_again_and_again(trail: None) -> None:
    for count in (5, 1, 1):
        older_through = last().number
        triggers.remove(connection)
        triggers.install(connection)
        _prune_through(older_through, count)
        assert "1 records" in run("--verify")


def _prune_through(number: int, count: int) -> None:
    from models_registry.audit.pruning import prune

    assert prune(number, "") == count


def test_nothing_is_pruned_of_a_trail_that_is_not_sound(trail: None) -> None:
    older(100, through=5)
    triggers.remove(connection)
    connection.cursor().execute(f"UPDATE {triggers.TABLE} SET actor = 'x' WHERE number = 2")
    triggers.install(connection)

    with pytest.raises(CommandError, match="not sound"):
        run("--prune", "90", "--discard")
    assert AuditRecord.objects.count() == 5


# REST -------------------------------------------------------------------------------------


def test_a_program_searches_it(manager: Manager, preset: Preset) -> None:
    manager.patch(f"/presets/{preset.name}", {"ctx_size": 512})

    found = manager.get(f"/audit?type=preset&id={preset.pk}&action=changed").json

    assert found["count"] == 1
    (item,) = found["items"]
    assert item["changes"] == {"ctx_size": [4096, 512]}
    assert manager.get(f"/audit/{item['number']}").json == item
    assert manager.get("/audit/999999").code == "not_found"
    assert manager.get("/audit?who=robot&door=rest&object=Q4_K_M").json["count"] == 1
    assert manager.get(f"/audit?who={item['key']}").json["count"] >= 1
    assert manager.get("/audit?wo=robot").status >= 400


def test_a_program_exports_it(manager: Manager, preset: Preset, tmp_path: Path) -> None:
    answer = manager.client.get("/router/api/audit/export.jsonl", headers=manager.headers)
    file = tmp_path / "trail.jsonl"
    file.write_bytes(streamed(answer))

    assert f"{AuditRecord.objects.count()} records" in run("--verify", str(file))
    table = manager.client.get("/router/api/audit/export.csv?type=key", headers=manager.headers)
    assert streamed(table).count(b"\r\n") == 2


def streamed(answer: Any) -> bytes:
    @async_to_sync
    async def whole() -> bytes:
        return b"".join([piece async for piece in answer.streaming_content])

    return whole()


def test_leads_see_what_concerns_their_team_and_nothing_else(scheduler: Any, db: None) -> None:
    team, anna = Team.objects.create(name="builders"), User.objects.create_user("anna")
    Membership.objects.create(user=anna, team=team, role="lead")
    create_key("theirs", "builders")
    create_key("ours", "readers")

    found = Manager(client=session_of(anna)).get("/audit").json["items"]

    assert {item["team"] for item in found} == {team.pk}
    assert "theirs" in str(found)
    assert "ours" not in str(found)
    of_others = AuditRecord.objects.exclude(team=team.pk).first()
    assert of_others is not None
    assert Manager(client=session_of(anna)).get(f"/audit/{of_others.number}").code == "not_found"


def test_who_has_nothing_to_see_is_refused(scheduler: Any, db: None) -> None:
    member = User.objects.create_user("ben")
    Membership.objects.create(user=member, team=Team.objects.create(name="builders"))
    plain = Manager(create_key("plain", scopes=["infer", "read", "load", "metrics"]))

    for asker in (plain, Manager(client=session_of(member)), Manager(client=session_of(staff()))):
        assert asker.get("/audit").code == "permission_denied"
        assert asker.get("/audit/export.csv").code == "permission_denied"
    allowed = staff_with("models_registry.view_auditrecord")
    assert Manager(client=session_of(allowed)).get("/audit").status == 200


def staff_with(permission: str) -> User:
    User.objects.filter(username="limited").delete()
    return staff(permission)


# The admin --------------------------------------------------------------------------------


def test_the_page_is_searched_and_only_read(
    trail: None, preset: Preset, django_assert_max_num_queries: Any
) -> None:
    record("changed", "preset", EVIL, changes={"ctx_size": (EVIL, EVIL)})
    anna = User.objects.create_superuser("anna")
    client = session_of(anna)
    url = reverse("admin:models_registry_auditrecord_changelist")

    with django_assert_max_num_queries(12):
        page = client.get(url, {"q": "p3"}).content.decode()
    assert "preset p3" in page
    assert "preset p4" not in page
    assert EVIL not in client.get(url).content.decode()
    one = reverse("admin:models_registry_auditrecord_change", args=[last().number])
    assert EVIL not in client.get(one).content.decode()
    assert client.post(one, {"actor": "x"}).status_code == 403
    add = reverse("admin:models_registry_auditrecord_add")
    assert client.get(add).status_code == 403


def test_each_objects_page_leads_to_what_was_done_to_it(preset: Preset, scheduler: Any) -> None:
    client = session_of(User.objects.create_superuser("anna"))
    page = client.get(reverse("admin:models_registry_preset_change", args=[preset.pk]))

    query = f"?object_type=preset&amp;object_id={preset.pk}"
    url = reverse("admin:models_registry_auditrecord_changelist")
    assert f"{url}{query}" in page.content.decode()
    found = client.get(url, {"object_type": "preset", "object_id": preset.pk})
    assert found.context["cl"].result_count == 1


def test_who_may_not_read_the_trail_gets_no_page_and_no_link(
    preset: Preset, scheduler: Any
) -> None:
    client = session_of(staff("models_registry.view_preset"))

    assert client.get(reverse("admin:models_registry_auditrecord_changelist")).status_code == 403
    page = client.get(reverse("admin:models_registry_preset_change", args=[preset.pk]))
    assert "auditrecord" not in page.content.decode()


def test_all_actions_can_be_chosen() -> None:
    used = {expected.partition(" ")[0] for _, _, expected in CASES.values() if expected}

    assert used - {"switched", "content"} <= {*ACTIONS}
    assert {*Door}


def test_a_keys_page_has_the_link_too(scheduler: Any, db: None) -> None:
    key = admin_key()
    client = session_of(User.objects.create_superuser("anna"))
    from proxy.models import ApiKey

    row = ApiKey.objects.get(public_id=key.split("_")[1])
    page = client.get(reverse("admin:proxy_apikey_change", args=[row.pk]))
    assert f"object_type=key&amp;object_id={row.pk}" in page.content.decode()
