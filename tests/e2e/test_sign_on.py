"""People come in by single sign-on, and what they are here is what their groups say each time.

A real gateway, and a stand-in for the provider; browsers are sessions of `requests`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from html import unescape
from typing import Any

import jwt
import pytest
import requests

from tests.support.gateway import Gateway, gateway
from tests.support.oidc_stand_in import (
    CLIENT,
    SECRET,
    Claims,
    StandInProvider,
    oidc_stand_in,
    signing_key,
)
from tests.support.polling import eventually

pytestmark = pytest.mark.slow

GROUPS = """{"ml": "member:builders", "ml-leads": ["lead:builders", "member:testers"],
    "ops": "superuser", "lost": "member:nowhere"}"""
ROWS = """
from django.contrib.auth.models import User
from proxy.models import Team
for name in ("builders", "testers", "by hand"):
    Team.objects.create(name=name)
User.objects.create_user("locke", email="locke@example.com", password="long enough 7")
User.objects.create_superuser("lars", password="long enough 7")
"""
KEY = re.compile(r"ck_[a-z2-7]{8}_[A-Za-z0-9_-]{43}")


@pytest.fixture(scope="module")
def provider() -> Iterator[StandInProvider]:
    with oidc_stand_in() as standing_in:
        yield standing_in


@pytest.fixture(scope="module")
def house(provider: StandInProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    env = {
        "CORRAL_OIDC_ISSUER": provider.issuer,
        "CORRAL_OIDC_CLIENT_ID": CLIENT,
        "CORRAL_OIDC_CLIENT_SECRET": SECRET,
        "CORRAL_OIDC_NAME": "Log in by the house",
        "CORRAL_OIDC_GROUPS": GROUPS.replace("\n", " "),
        "CORRAL_STAFF_SECOND_FACTOR": "required",
    }
    with gateway(tmp_path_factory.mktemp("sign-on"), env=env) as running:
        running.django(ROWS)
        yield running


@pytest.fixture(autouse=True)
def honest(provider: StandInProvider) -> None:
    provider.honest()


class Browser:
    def __init__(self, house: Gateway) -> None:
        self.house = house
        self.session = requests.Session()
        self.session.trust_env = False

    def get(self, path: str, **options: Any) -> requests.Response:
        return self.session.get(self.house.base_url + path, timeout=30, **options)

    def post(self, path: str, form: dict[str, str], page: str) -> requests.Response:
        """With the token of the form's own page."""
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', self.get(page).text)
        assert token, page
        return self.session.post(
            self.house.base_url + path,
            {**form, "csrfmiddlewaretoken": token[1]},
            timeout=30,
        )

    def leave(self, **form: str) -> str:
        """Press the button; where it leads."""
        page = self.post("/account/sign-on/", form, "/account/login/")
        assert page.status_code == 200, page.text
        found = re.search(r'content="0; url=([^"]+)"', page.text)
        assert found
        return unescape(found[1])

    def come(self, **form: str) -> requests.Response:
        return self.session.get(self.leave(**form), timeout=30)

    def make_key(self, team: str = "builders") -> str:
        number = re.search(rf'<option value="(\d+)"[^>]*>\s*{team}', self.get("/account/").text)
        assert number, f"no key can be made in {team}"
        form = {"name": "laptop", "team": number[1], "scopes": "infer", "owner": "mine"}
        made = KEY.search(self.post("/account/", form, "/account/").text)
        assert made
        return made[0]


def person(name: str, *groups: str, **claims: Any) -> Claims:
    about = {"sub": f"subject-{name}", "preferred_username": name, "email": f"{name}@example.com"}
    return {**about, "groups": [*groups], **claims}


def memberships(house: Gateway, name: str) -> dict[str, str]:
    headers = {"Authorization": f"Bearer {house.admin_key}"}
    found = requests.get(f"{house.base_url}/router/api/members", headers=headers, timeout=30)
    rows = found.json()["items"]
    return {row["team"]: row["role"] for row in rows if row["user"] == name}


def works(house: Gateway, key: str) -> bool:
    headers = {"Authorization": f"Bearer {key}"}
    answer = requests.get(f"{house.base_url}/v1/models", headers=headers, timeout=30)
    assert answer.status_code in (200, 401)
    return answer.status_code == 200


def test_somebody_comes_for_the_first_time_and_makes_a_key(
    house: Gateway, provider: StandInProvider
) -> None:
    provider.person = person("anna", "ml", "another group")
    browser = Browser(house)
    assert "Log in by the house" in browser.get("/admin/login/").text

    page = browser.come(next="/account/?from=there")

    assert (page.status_code, page.url) == (200, f"{house.base_url}/account/?from=there")
    assert memberships(house, "anna") == {"builders": "member"}
    assert works(house, browser.make_key())
    assert "Admin" not in page.text
    assert browser.get("/admin/", allow_redirects=False).status_code == 302
    browser.post("/account/logout/", {}, "/account/")
    assert browser.get("/account/", allow_redirects=False).status_code == 302


def test_groups_count_anew_at_each_log_in(house: Gateway, provider: StandInProvider) -> None:
    browser = Browser(house)
    provider.person = person("bert", "ml-leads", "ml")
    browser.come()
    assert memberships(house, "bert") == {"builders": "lead", "testers": "member"}
    kept, lost = browser.make_key("builders"), browser.make_key("testers")
    assert works(house, lost)

    provider.person = person("bert", "ml", "lost")
    Browser(house).come()

    assert memberships(house, "bert") == {"builders": "member"}
    eventually(lambda: not works(house, lost), "the key of the team that was left is refused")
    assert works(house, kept)


def test_who_is_out_of_all_groups_loses_everything_and_gets_it_back_with_a_group(
    house: Gateway, provider: StandInProvider
) -> None:
    browser = Browser(house)
    provider.person = person("cora", "ml", "ops", amr=["pwd", "mfa"])
    browser.come()
    key = browser.make_key()
    assert browser.get("/admin/", allow_redirects=False).status_code == 200

    provider.person = person("cora", "ml-alumni")
    refused = Browser(house).come()

    assert refused.status_code == 403
    assert "none of the groups" in refused.text
    assert memberships(house, "cora") == {}
    eventually(lambda: not works(house, key), "their key is refused")
    assert browser.get("/account/", allow_redirects=False).status_code == 302

    provider.person = person("cora", "ml")
    again = Browser(house)
    again.come()
    eventually(lambda: works(house, key), "their key works again")
    assert again.get("/admin/", allow_redirects=False).status_code == 302, "no superuser now"


def test_who_was_never_let_in_gets_no_account(house: Gateway, provider: StandInProvider) -> None:
    for claims in (person("dora"), person("dora", "others"), {**person("dora"), "groups": None}):
        provider.person = claims
        browser = Browser(house)

        assert browser.come().status_code == 403
        assert "sessionid" not in browser.session.cookies or (
            browser.get("/account/", allow_redirects=False).status_code == 302
        )
    provider.person = person("dora", "ml")
    assert Browser(house).come().status_code == 200


def other_nonce(provider: StandInProvider, claims: Claims) -> str:
    return provider.signed({**claims, "nonce": "0" * 64})


def no_nonce(provider: StandInProvider, claims: Claims) -> str:
    return provider.signed({name: said for name, said in claims.items() if name != "nonce"})


def other_key(provider: StandInProvider, claims: Claims) -> str:
    return provider.signed(claims, key=signing_key())


def unknown_key(provider: StandInProvider, claims: Claims) -> str:
    return provider.signed(claims, kid="two")


def other_issuer(provider: StandInProvider, claims: Claims) -> str:
    return provider.signed({**claims, "iss": "https://evil.example"})


def other_client(provider: StandInProvider, claims: Claims) -> str:
    return provider.signed({**claims, "aud": "another"})


def for_another_party(provider: StandInProvider, claims: Claims) -> str:
    return provider.signed({**claims, "aud": [CLIENT, "another"], "azp": "another"})


def expired(provider: StandInProvider, claims: Claims) -> str:
    return provider.signed({**claims, "exp": int(time.time()) - 120})


def never_expires(provider: StandInProvider, claims: Claims) -> str:
    return provider.signed({name: said for name, said in claims.items() if name != "exp"})


def nobody(provider: StandInProvider, claims: Claims) -> str:
    return provider.signed({name: said for name, said in claims.items() if name != "sub"})


def subject_is_a_number(provider: StandInProvider, claims: Claims) -> str:
    return str(provider.signed({**claims, "sub": ""}))


def unsigned(provider: StandInProvider, claims: Claims) -> str:
    return jwt.encode(claims, None, algorithm="none", headers={"kid": "one"})


def signed_by_the_clients_secret(provider: StandInProvider, claims: Claims) -> str:
    return jwt.encode(claims, SECRET * 2, algorithm="HS256", headers={"kid": "one"})


def cut(provider: StandInProvider, claims: Claims) -> str:
    return provider.signed(claims)[:-20]


def no_token(provider: StandInProvider, claims: Claims) -> str:
    return "null"


def missing(provider: StandInProvider, claims: Claims) -> None:
    return None


LIES: list[Callable[[StandInProvider, Claims], str | None]] = [
    other_nonce, no_nonce, other_key, unknown_key, other_issuer, other_client, for_another_party,
    expired, never_expires, nobody, subject_is_a_number, unsigned, signed_by_the_clients_secret,
    cut, no_token, missing,
]  # fmt: skip


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_a_token_that_is_not_right_lets_nobody_in(
    house: Gateway, provider: StandInProvider, lie: Callable[..., str | None]
) -> None:
    provider.person = person("eve", "ml", "ops")
    provider.sign = lambda claims: lie(provider, claims)
    browser, before = Browser(house), provider.exchanged

    answer = browser.come()

    assert provider.exchanged == before + 1, "it is the token that is refused"
    assert answer.status_code == 403
    assert "begin again" in answer.text
    assert browser.get("/account/", allow_redirects=False).status_code == 302
    assert memberships(house, "eve") == {}


def test_an_answer_is_for_the_browser_that_began_and_once(
    house: Gateway, provider: StandInProvider
) -> None:
    provider.person = person("fred", "ml")
    mine, hers = Browser(house), Browser(house)
    back = mine.session.get(mine.leave(), allow_redirects=False, timeout=30).headers["Location"]

    assert hers.session.get(back, timeout=30).status_code == 403
    assert mine.session.get(back, timeout=30).status_code == 200
    assert mine.session.get(back, timeout=30).status_code == 403
    made_up = f"{house.base_url}/account/sign-on/callback/?code=x&state=y"
    assert Browser(house).session.get(made_up, timeout=30).status_code == 403


def test_nobody_is_led_elsewhere_or_begins_without_a_form(
    house: Gateway, provider: StandInProvider
) -> None:
    provider.person = person("gina", "ml")

    page = Browser(house).come(next="https://evil.example/")

    assert page.url == f"{house.base_url}/account/"
    assert Browser(house).get("/account/sign-on/").status_code == 405
    bare = requests.post(f"{house.base_url}/account/sign-on/", timeout=30)
    assert bare.status_code == 403


def test_a_local_account_is_not_taken_over_until_somebody_says_whose_it_is(
    house: Gateway, provider: StandInProvider
) -> None:
    same_name = {**person("LOCKE", "ml"), "email": ""}
    same_address = {**person("mallory", "ml"), "email": "Locke@Example.com"}
    looks_alike = {**person("\uff2c\uff4f\uff43\uff4b\uff45", "ml"), "email": ""}
    for claims in (same_name, same_address, looks_alike):
        provider.person = claims
        refused = Browser(house).come()
        assert refused.status_code == 403
        assert "is not taken over" in refused.text
    assert memberships(house, "locke") == {}

    for _ in range(2):  # the second time changes nothing, and is not told
        linked = house.manage("linkaccount", "locke", "subject-LOCKE")
        assert linked.returncode == 0, linked.stderr
    trail = house.manage("audit", "--action", "sign-on linked", "--object", "locke").stdout
    (told,) = [line for line in trail.splitlines() if "sign-on linked user locke" in line]
    assert "command line: linkaccount" in told
    assert "subject: null → subject-LOCKE" in told
    provider.person = same_name

    assert Browser(house).come().status_code == 200
    assert memberships(house, "locke") == {"builders": "member"}


def test_an_inactive_account_stays_out(house: Gateway, provider: StandInProvider) -> None:
    provider.person = person("hans", "ml")
    Browser(house).come()
    house.django(
        "from django.contrib.auth.models import User\n"
        "User.objects.filter(username='hans').update(is_active=False)"
    )

    refused = Browser(house).come()

    assert refused.status_code == 403
    assert "made inactive" in refused.text


def test_the_second_factor_is_asked_for_unless_the_provider_has_seen_one(
    house: Gateway, provider: StandInProvider
) -> None:
    provider.person = person("iris", "ops")
    without = Browser(house)
    without.come()
    provider.person = person("iris", "ops", amr=["pwd", "otp", "mfa"])
    with_one = Browser(house)
    with_one.come()

    led = without.get("/admin/", allow_redirects=False).headers["Location"]
    assert led.startswith("/account/second-factor/")
    assert with_one.get("/admin/", allow_redirects=False).status_code == 200


def test_groups_may_be_said_in_userinfo_by_the_same_person_only(
    house: Gateway, provider: StandInProvider
) -> None:
    claims = person("jana")
    del claims["groups"]
    provider.person = claims
    provider.userinfo = {"sub": "somebody else", "groups": ["ml"]}
    assert Browser(house).come().status_code == 403
    provider.userinfo = {"sub": claims["sub"], "groups": ["ml"]}

    assert Browser(house).come().status_code == 200

    assert memberships(house, "jana") == {"builders": "member"}


def test_another_provider_at_that_address_is_none(
    house: Gateway, provider: StandInProvider
) -> None:
    provider.calls_itself = "https://evil.example"
    browser = Browser(house)

    answer = browser.post("/account/sign-on/", {}, "/account/login/")

    assert answer.status_code == 502
    assert "begin again" in answer.text


def test_a_password_is_taken_as_ever(house: Gateway) -> None:
    form = {"username": "lars", "password": "long enough 7", "next": "/account/"}

    page = Browser(house).post("/account/login/", form, "/account/login/")

    assert "second-factor" in page.url, "required of staff, so they are known"


def test_people_can_be_deleted_with_it_and_when_it_was_turned_off(
    house: Gateway, provider: StandInProvider
) -> None:
    for name in ("kurt", "lisa"):
        provider.person = person(name, "ml")
        Browser(house).come()
    delete = "from django.contrib.auth.models import User\nUser.objects.get(username='{}').delete()"

    house.django(delete.format("kurt"))
    on = house.environment
    house.environment = {name: text for name, text in on.items() if "OIDC" not in name}
    try:
        house.django(delete.format("lisa"))
    finally:
        house.environment = on

    provider.person = person("lisa", "ml")
    assert Browser(house).come().status_code == 200, "as somebody new"


def test_no_secret_and_no_token_is_in_the_log(house: Gateway, provider: StandInProvider) -> None:
    said = "\n".join(house.output)

    assert "single sign-on" in said
    assert SECRET not in said
    assert "of the stand-in" not in said
    assert "eyJ" not in said
