"""OAuth over HTTP: the SDK's client end to end, a person's approval, and hostile requests."""

import asyncio
import base64
import hashlib
import json
import re
import secrets
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import pytest

pytest.importorskip("mcp", reason="the package mcp is missing: pip install 'handoffd[http]'")

import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

from conftest import DaemonSandbox
from daemon_costs import megabytes
from handoffd.api import http_oauth
from handoffd.store import oauth
from http_clients import INITIALIZE, Visitor, frame, open_listener, tls_proxy
from setup_home import Place

pytestmark = pytest.mark.quick

CALLBACK = "https://client.example/callback"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
JSON = {"Content-Type": "application/json"}


class Door(Visitor):
    """A daemon behind a TLS proxy, and the steps of OAuth, each as one request."""

    proxy = None

    def browse(self, url: str):
        """Open an address of ours as a browser does."""
        assert url.startswith(self.proxy.url), url
        return self.send("GET", url.removeprefix(self.proxy.url))

    def register(self, *uris: str, **metadata):
        body = {"redirect_uris": uris or [CALLBACK], "client_name": "Claude", **metadata}
        return self.send("POST", "/register", json.dumps(body).encode(), JSON)

    def client(self) -> str:
        found = self.register()
        assert 201 == found.status, found
        return found.json["client_id"]

    def authorize(self, client: str, **changes):
        asked = {
            "client_id": client, "response_type": "code", "redirect_uri": CALLBACK, "state": "s 1",
            "code_challenge": challenge("v" * 43), "code_challenge_method": "S256", **changes,
        }  # fmt: skip
        query = urlencode({name: value for name, value in asked.items() if value is not None})
        return self.send("GET", f"/authorize?{query}")

    def page(self, client: str, **changes) -> str:
        answer = self.authorize(client, **changes)
        assert 302 == answer.status, answer
        return answer.headers["location"]

    def approve(self, page: str) -> None:
        done = self.sandbox.handoff("token", "approve", code_on(self.browse(page)), "--yes")
        assert 0 == done.returncode, done

    def code(self, client: str) -> str:
        page = self.page(client)
        self.approve(page)
        return parse_qs(urlsplit(self.browse(page).headers["location"]).query)["code"][0]

    def exchange(self, client: str, code: str, **changes):
        asked = {
            "grant_type": "authorization_code", "client_id": client, "code": code,
            "redirect_uri": CALLBACK, "code_verifier": "v" * 43, **changes,
        }  # fmt: skip
        return self.send("POST", "/token", urlencode(asked).encode(), FORM)

    def refresh(self, client: str, token: str):
        asked = {"grant_type": "refresh_token", "client_id": client, "refresh_token": token}
        return self.send("POST", "/token", urlencode(asked).encode(), FORM)

    def tokens(self, client: str) -> SimpleNamespace:
        return SimpleNamespace(**self.exchange(client, self.code(client)).json)

    def status_with(self, token: str) -> int:
        asked = frame("initialize", INITIALIZE)
        return self.post(asked, Authorization=f"Bearer {token}").status


def challenge(verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def code_on(answer) -> str:
    return re.search(r"handoff token approve (\w{4}-\w{4})<", answer.body.decode())[1]


@pytest.fixture(scope="module")
def door(tmp_path_factory):
    """One daemon behind a TLS proxy, for all tests that do not flood it."""
    yield from opened(tmp_path_factory.mktemp("oauth"))


@pytest.fixture
def own_door(tmp_path):
    """A daemon that a test has for itself."""
    yield from opened(tmp_path)


def opened(directory: Path):
    runtime = Path(tempfile.mkdtemp(prefix="ho-", dir="/tmp"))
    sandbox = DaemonSandbox(directory, runtime)
    found = Door(sandbox, 0)
    with tls_proxy(directory, lambda: found.inner) as proxy:
        found.inner = open_listener(sandbox, public_url=proxy.url).port
        found.proxy, found.port, found.tls = proxy, proxy.port, proxy.trust
        yield found
    sandbox.kill()
    shutil.rmtree(runtime, ignore_errors=True)


class Storage:
    """What the SDK's client remembers."""

    def __init__(self):
        self.tokens = self.client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client_info):
        self.client = client_info


def with_sdk(door, storage, conversation):
    """Hold a conversation by the SDK's client, which gets its token by OAuth."""
    answered = {}

    async def browser(url: str) -> None:
        page = (await asyncio.to_thread(door.browse, url)).headers["location"]
        await asyncio.to_thread(door.approve, page)
        back = await asyncio.to_thread(door.browse, page)
        answered.update(parse_qsl(urlsplit(back.headers["location"]).query))

    async def callback() -> AuthorizationCodeResult:
        # Each answer is used once: a second authorization would fail here.
        return AuthorizationCodeResult(code=answered.pop("code"), state=answered.pop("state"))

    async def hold():
        wanted = OAuthClientMetadata(redirect_uris=[CALLBACK], client_name="The SDK")
        url = f"{door.proxy.url}/mcp"
        auth = OAuthClientProvider(url, wanted, storage, browser, callback)
        async with (
            httpx2.AsyncClient(auth=auth, verify=door.tls) as http,
            Client(streamable_http_client(url, http_client=http)) as mcp,
        ):
            return await conversation(mcp, auth)

    return asyncio.run(hold())


def test_the_sdks_client_end_to_end(door):
    """The SDK's client discovers, registers, is approved, calls a tool, and refreshes its token."""
    storage = Storage()

    async def conversation(mcp, auth):
        made = await mcp.call_tool("create_handoff", {"title": "T", "content": "C"})
        first = storage.tokens
        # The access token is over; the client asks for a new one by the other token.
        auth.context.token_expiry_time = 1.0
        ident = made.structured_content["handoff"]["id"]
        read = await mcp.call_tool("get_handoff", {"id": ident})
        return first, read.structured_content

    first, read = with_sdk(door, storage, conversation)

    assert ["C"] == [entry["content"] for entry in read["entries"]]
    assert "none" == storage.client.token_endpoint_auth_method
    assert storage.client.client_secret is None
    assert http_oauth.ACCESS_SECONDS == first.expires_in
    assert first.access_token != storage.tokens.access_token
    assert first.refresh_token != storage.tokens.refresh_token
    assert 400 == door.refresh(storage.client.client_id, first.refresh_token).status


def test_nothing_without_a_persons_approval(door):
    """A page that nobody approves leads nowhere, and there is no code to exchange."""
    page = door.page(door.client())

    for _ in range(2):
        answer = door.browse(page)
        assert (200, "2", None) == (
            answer.status, answer.headers["refresh"], answer.headers.get("location"),
        )  # fmt: skip
    assert b"calls itself <b>Claude</b>" in answer.body
    assert b"<b>client.example</b>" in answer.body


def test_the_documents_of_discovery(door):
    """401 names the resource's document, which names the server's, which says all that we do."""
    refused = door.send("POST", "/mcp", b"{}", JSON)
    named = re.search(r'resource_metadata="([^"]+)"', refused.headers["www-authenticate"])[1]
    resource = door.browse(named).json
    server = door.browse(f"{door.proxy.url}/.well-known/oauth-authorization-server").json

    assert 401 == refused.status
    assert (f"{door.proxy.url}/mcp", [door.proxy.url]) == (
        resource["resource"], resource["authorization_servers"],
    )  # fmt: skip
    assert door.proxy.url == server["issuer"]
    assert (["S256"], ["none"]) == (
        server["code_challenge_methods_supported"],
        server["token_endpoint_auth_methods_supported"],
    )
    assert {"authorization", "token", "registration", "revocation"} <= {
        name.removesuffix("_endpoint") for name in server
    }


def test_a_redirect_is_to_the_registered_address_with_the_state(door):
    """The approved request leads back to the client once, with its state and a code."""
    page = door.page(door.client(), scope="claudeai")
    door.approve(page)
    first, second = door.browse(page), door.browse(page)

    assert (302, 404) == (first.status, second.status)
    assert first.headers["location"].startswith(f"{CALLBACK}?code=")
    assert "s 1" == parse_qs(urlsplit(first.headers["location"]).query)["state"][0]
    assert "no-referrer" == first.headers["referrer-policy"]


@pytest.mark.parametrize(
    "uri",
    [
        "http://client.example/callback",
        "javascript:alert(1)",
        "data:text/html,x",
        "cursor://callback",
        "https://client.example/callback#part",
        "https://claude.ai@evil.example/callback",
        "http://localhost.evil.example/callback",
        f"https://client.example/{'x' * 3000}",
    ],
)
def test_an_address_that_is_no_place_to_lead_to(door, uri):
    """Only https addresses, and http ones of this machine, can be registered."""
    answer = door.register(uri)

    assert (400, "invalid_redirect_uri") == (answer.status, answer.json["error"])


def test_addresses_that_may_be_registered(door):
    """A program on this machine registers an http address of it."""
    for uri in ("http://localhost:4711/callback", "http://127.0.0.1:1/", "http://[::1]:5/c"):
        assert 201 == door.register(uri).status
    assert 400 == door.register(*(f"https://a.example/{n}" for n in range(6))).status


def test_a_program_may_listen_on_another_port(door):
    """An http address of the client's machine is accepted with any port, and with no other path."""
    client = door.register("http://localhost:4711/callback").json["client_id"]

    for uri, status in (
        ("http://localhost:9/callback", 302),
        ("http://localhost:9/other", 400),
        ("http://127.0.0.1:4711/callback", 400),
        ("https://localhost:4711/callback", 400),
        ("http://localhost@evil.example/callback", 400),
        ("http://localhost.evil.example:4711/callback", 400),
    ):
        assert status == door.authorize(client, redirect_uri=uri).status, uri


@pytest.mark.parametrize(
    "changes",
    [
        {"redirect_uri": "https://evil.example/callback"},
        {"redirect_uri": f"{CALLBACK}/../x"},
        {"redirect_uri": f"{CALLBACK}?x=1"},
        {"redirect_uri": "https://client.example:444/callback"},
        {"client_id": "unknown"},
        {"client_id": ""},
        {"response_type": "token"},
        {"code_challenge": None},
        {"code_challenge_method": "plain"},
        {"resource": "https://other.example/mcp"},
        {"state": "x" * 3000},
    ],
)
def test_no_open_redirect(door, changes):
    """A wrong request is answered here: it leads to no address, not even to a registered one."""
    answer = door.authorize(door.client(), **changes)

    assert 400 == answer.status
    assert "location" not in answer.headers
    assert "error" in answer.json


def test_an_address_that_looks_like_our_page_is_no_way_out(door):
    """An error does not lead to a registered address whose path is that of our page."""
    uri = "https://evil.example/approve/x"
    client = door.register(uri).json["client_id"]

    answer = door.authorize(client, redirect_uri=uri, response_type="token")

    assert (400, None) == (answer.status, answer.headers.get("location"))


def test_a_name_is_shown_as_text(door):
    """Markup and control characters in a client's name are shown as text, cut to a length."""
    name = "<script>\x1b[31mevil\n" + "x" * 5000
    client = door.register(client_name=name).json["client_id"]
    page = door.browse(door.page(client))
    listed = door.sandbox.handoff("token", "list").stdout

    assert b"<script>" not in page.body
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "\x1b" not in listed
    assert client[:8] in listed
    assert max(map(len, listed.splitlines())) < 300


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"code_verifier": "w" * 43}, "invalid_grant"),
        ({"redirect_uri": "https://evil.example/callback"}, "invalid_request"),
    ],
)
def test_a_code_is_of_use_only_to_its_client(door, changes, error):
    """A code without its verifier or its address gets no token; the client's own request does."""
    client = door.client()
    code = door.code(client)

    refused = door.exchange(client, code, **changes)

    assert (400, error) == (refused.status, refused.json["error"])
    assert 200 == door.exchange(client, code).status


def test_a_code_of_another_client(door):
    """A client cannot exchange the code of another one."""
    code = door.code(door.client())

    refused = door.exchange(door.client(), code)

    assert (400, "invalid_grant") == (refused.status, refused.json["error"])


def test_a_code_that_is_replayed_ends_the_access(door):
    """The second use of a code gets no token, and the tokens of the first are invalid."""
    client = door.client()
    code = door.code(client)
    token = door.exchange(client, code).json["access_token"]
    assert 200 == door.status_with(token)

    replayed = door.exchange(client, code)

    assert (400, "invalid_grant") == (replayed.status, replayed.json["error"])
    assert 401 == door.status_with(token)


def test_a_refresh_token_that_is_used_twice_ends_the_access(door):
    """A refresh token is valid once; its second use ends all tokens of the grant."""
    client = door.client()
    first = door.tokens(client)
    second = door.refresh(client, first.refresh_token).json
    assert 200 == door.status_with(second["access_token"])

    stolen = door.refresh(client, first.refresh_token)

    assert (400, "invalid_grant") == (stolen.status, stolen.json["error"])
    assert 401 == door.status_with(second["access_token"])
    assert 400 == door.refresh(client, second["refresh_token"]).status


def test_tokens_are_of_one_kind(door):
    """A refresh token opens nothing, and neither an access token nor a page is refreshed."""
    client = door.client()
    tokens = door.tokens(client)
    page = door.page(client).rpartition("/")[2]

    assert 401 == door.status_with(tokens.refresh_token)
    assert 401 == door.status_with(page)
    assert 400 == door.refresh(client, tokens.access_token).status
    assert 400 == door.exchange(client, page).status


def test_the_client_revokes_its_token(door):
    """A client that revokes one token loses the other, too."""
    client = door.client()
    tokens = door.tokens(client)
    body = urlencode({"client_id": client, "token": tokens.refresh_token, "client_secret": ""})

    assert 200 == door.send("POST", "/revoke", body.encode(), FORM).status
    assert 401 == door.status_with(tokens.access_token)
    assert 400 == door.refresh(client, tokens.refresh_token).status


def test_the_person_revokes_a_client(door):
    """After `handoff token revoke` no token works, and the client is told to register anew."""
    client = door.client()
    tokens = door.tokens(client)
    assert 200 == door.status_with(tokens.access_token)

    done = door.sandbox.handoff("token", "revoke", client[:8])
    refused = door.refresh(client, tokens.refresh_token)

    assert (0, "Claude (client.example) has no access any more.\n") == (
        done.returncode, done.stdout,
    )  # fmt: skip
    assert 401 == door.status_with(tokens.access_token)
    assert (401, "invalid_client") == (refused.status, refused.json["error"])
    assert 400 == door.authorize(client).status
    assert client[:8] not in door.sandbox.handoff("token", "list").stdout


def test_a_code_is_approved_once_and_only_if_it_waits(door):
    """An unknown or spent code is refused; spelling does not matter; a program says --yes."""
    page = door.page(door.client())
    code = code_on(door.browse(page))

    unknown = door.sandbox.handoff("token", "approve", "AAAA-AAAA", "--yes")
    unasked = door.sandbox.handoff("token", "approve", code)
    done = door.sandbox.handoff("token", "approve", code.lower().replace("-", " "), "--yes")
    again = door.sandbox.handoff("token", "approve", code, "--yes")

    assert (1, "No client waits with this code.") == (
        unknown.returncode, unknown.stderr.partition("\n")[0].removeprefix("handoff: "),
    )  # fmt: skip
    assert 4 == unasked.returncode
    assert "'Claude', which is answered at client.example" in unasked.stderr
    assert (0, "Claude (client.example) is approved.\n") == (done.returncode, done.stdout)
    assert 1 == again.returncode


def test_a_person_is_asked_at_the_terminal(door):
    """At a terminal the client and its host are shown; only a yes approves it."""
    place = Place(door.sandbox)
    page = door.page(door.client())
    code = code_on(door.browse(page))
    question = "May 'Claude', which is answered at client.example, use your threads? [y/N]"

    for answer in ("\n", "n\n"):
        status, said = place.at_terminal("token", "approve", code, answers=[(question, answer)])
        assert (0, True) == (status, "It was not approved." in said)
        assert 200 == door.browse(page).status
    status, said = place.at_terminal("token", "approve", code, answers=[(question, "y\n")])

    assert (0, True) == (status, "Claude (client.example) is approved." in said)
    assert 302 == door.browse(page).status


def test_without_a_daemon_clients_are_listed_and_revoked(own_door):
    """The clients are in core.db, so a person can revoke one while no daemon runs."""
    client = own_door.client()
    tokens = own_door.tokens(client)
    own_door.sandbox.kill()

    assert client[:8] in own_door.sandbox.handoff("token", "list").stdout
    assert 0 == own_door.sandbox.handoff("token", "revoke", client[:8]).returncode

    own_door.inner = open_listener(own_door.sandbox, public_url=own_door.proxy.url).port
    assert 401 == own_door.status_with(tokens.access_token)


def test_all_are_revoked(own_door):
    """`handoff token revoke --all` ends every access, and the list is empty then."""
    tokens = [own_door.tokens(own_door.client()) for _ in range(2)]
    listed = json.loads(own_door.sandbox.handoff("token", "list", "--json").stdout)

    own_door.sandbox.handoff("token", "revoke", "--all")

    assert [True, True] == [bool(client["approved_at"]) for client in listed]
    assert [401, 401] == [own_door.status_with(each.access_token) for each in tokens]
    assert "No client has asked" in own_door.sandbox.handoff("token", "list").stdout


def test_a_restart_keeps_the_clients(own_door):
    """A daemon that is killed and started anew knows clients, tokens and requests that wait."""
    client = own_door.client()
    tokens = own_door.tokens(client)
    page = own_door.page(client)
    own_door.sandbox.kill()
    own_door.inner = open_listener(own_door.sandbox, public_url=own_door.proxy.url).port

    assert 200 == own_door.status_with(tokens.access_token)
    own_door.approve(page)
    assert 302 == own_door.browse(page).status


def test_a_flood_of_registrations(own_door):
    """A flood leaves a limited number of rows, and clients that were approved before go on."""
    client = own_door.client()
    tokens = own_door.tokens(client)

    found = [own_door.register().status for _ in range(oauth.WAITING_CLIENTS_MAX + 20)]
    pages = [own_door.authorize(client).status for _ in range(oauth.WAITING_GRANTS_MAX + 5)]

    assert [201] * oauth.WAITING_CLIENTS_MAX + [400] * 20 == found
    assert [302] * oauth.WAITING_GRANTS_MAX + [400] * 5 == pages
    assert 200 == own_door.status_with(tokens.access_token)
    assert 200 == own_door.refresh(client, tokens.refresh_token).status
    with sqlite3.connect(own_door.sandbox.state / "core.db") as db:
        counted = db.execute("SELECT count(*) FROM oauth_clients").fetchone()[0]
    assert oauth.WAITING_CLIENTS_MAX + 1 == counted


def test_secrets_are_kept_as_hashes_only(own_door):
    """No code, token or page address is in core.db, its log, its copy or our log."""
    client = own_door.client()
    page = own_door.page(client)
    approval = code_on(own_door.browse(page))
    own_door.approve(page)
    code = parse_qs(urlsplit(own_door.browse(page).headers["location"]).query)["code"][0]
    tokens = own_door.exchange(client, code).json
    known = [page.rpartition("/")[2], approval, code, tokens["access_token"]]
    known += [tokens["refresh_token"], "v" * 43]

    kept = b"".join(p.read_bytes() for p in own_door.sandbox.state.rglob("*") if p.is_file())

    assert client.encode() in kept
    assert [] == [secret for secret in known if secret.encode() in kept]


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (("POST", "/register", b"x" * 20_000, JSON), 413),
        (("POST", "/register", b"[" * 9_000, JSON), 400),
        (("POST", "/register", b"{}", {"Content-Type": "text/plain"}), 415),
        (("POST", "/token", b"--x", {"Content-Type": "multipart/form-data; boundary=x"}), 415),
        (("POST", "/token", b"\xff=%zz&&;", FORM), 401),
        (("POST", "/token", b"a=b&" * 3_000, FORM), 400),
        (("POST", "/authorize", b"client_id=\xff", FORM), 400),
        (("HEAD", "/approve/x", None, {}), 405),
        (("PUT", "/token", b"", FORM), 405),
        (("GET", "/approve/x", None, {}), 404),
        (("GET", "/approve/%00", None, {}), 404),
        (("GET", "/approve/x/y", None, {}), 404),
        (("GET", "/token", None, {}), 405),
        (("POST", "/register", b"{}", {**JSON, "Origin": "https://evil.example"}), 403),
        (("GET", "/authorize", None, {"Host": "evil.example"}), 421),
    ],
)
def test_other_requests(door, asked, status):
    """Requests that are too long, of another kind, or from elsewhere are refused in good order."""
    assert status == door.send(*asked).status
    assert 200 == door.send("GET", "/health").status


def test_off_without_a_public_address(sandbox):
    """Without `public_url` there is no address of OAuth, and 401 names none."""
    visitor = open_listener(sandbox)
    refused = visitor.send("POST", "/mcp", b"{}", JSON)

    assert "resource_metadata" not in refused.headers["www-authenticate"]
    for path in ("/register", "/authorize", "/token", "/.well-known/oauth-authorization-server"):
        assert 404 == visitor.send("GET", path).status


def test_random_secrets_open_nothing(door):
    """A guessed token, page or code is refused."""
    guess = secrets.token_urlsafe(32)

    assert 401 == door.status_with(guess)
    assert 404 == door.browse(f"{door.proxy.url}/approve/{guess}").status
    assert 400 == door.exchange(door.client(), guess).status


def test_memory_with_oauth_in_use(own_door, record_property):
    """After a whole conversation by OAuth the daemon takes at most 85 MB."""
    client = own_door.client()
    tokens = own_door.tokens(client)
    assert 200 == own_door.refresh(client, tokens.refresh_token).status
    assert 200 == own_door.status_with(tokens.access_token)
    used = megabytes(own_door.sandbox.process.pid)

    assert used <= 85.0
    record_property("figure", f"{used:.1f} MB")


@pytest.mark.parametrize(
    ("loaded", "unloaded"),
    [
        ("handoffd.app", ("mcp", "starlette", "uvicorn")),
        ("handoffd.api.handlers.token", ("mcp", "starlette", "uvicorn")),
        ("handoffd.api.http_server", ("handoffd.api.http_oauth",)),
    ],
)
def test_nothing_is_loaded_that_is_not_used(loaded, unloaded):
    """Without HTTP no module for it is loaded; without a public address none of OAuth."""
    code = f"import sys, {loaded}; print({{*{unloaded!r}}} & {{*sys.modules}})"
    words = [sys.executable, "-P", "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=False)

    assert "set()\n" == done.stdout, done.stderr
