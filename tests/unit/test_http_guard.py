"""Who may speak to the HTTP door."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.common.errors import HandoffError
from handoffd.api.http_guard import HttpRequest, make_guard
from handoffd.config import HttpConfig

TOKEN = "t" * 43
NAMED = ((b"host", b"127.0.0.1:8377"),)
JSON = ((b"content-type", b"application/json"),)
BEARER = ((b"authorization", b"Bearer " + TOKEN.encode()),)


def guard(tls=False, token=TOKEN, **settings):
    return make_guard(HttpConfig(**settings), tls=tls, read_token=lambda: token)


def status(found, *headers, method="POST", path="/mcp"):
    """Return what is answered; 0: it may speak to the tools."""
    answer = found.answer(HttpRequest(method, path, tuple(headers)))
    return 0 if answer is None else int(answer.status)


def knock(name="127.0.0.1:8377", origin=None, **settings):
    headers = [(b"host", name.encode()), *BEARER, *JSON]
    if origin is not None:
        headers.append((b"origin", origin.encode()))
    return status(guard(**settings), *headers)


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8377", "localhost:8377", "LocalHost:8377", "[::1]:8377"]
)
def test_loopback_names_with_our_port(host):
    """A loopback name with our port is ours, in any letters."""
    assert 0 == knock(host)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8377",
        "localhost",
        "localhost:80",
        "localhost:8378",
        "localhost:8377.evil.example",
        "127.0.0.1:8377@evil.example",
        "127.0.0.2:8377",
        "0.0.0.0:8377",
        "",
    ],
)
def test_other_names_are_misdirected(host):
    """A name that is not ours, or another port, is answered 421."""
    assert 421 == knock(host)


def test_no_host_and_two_hosts():
    """A request without a Host is misdirected, and so is one with two."""
    twice = (*NAMED, *NAMED)

    assert 421 == status(guard(), *BEARER, *JSON)
    assert 421 == status(guard(), *twice, *BEARER, *JSON)


def test_usual_port_needs_no_mention():
    """On the port that a scheme implies, the name alone is ours."""
    assert 0 == knock("localhost", port=80)
    assert 0 == knock("localhost", port=443, tls=True)
    assert 421 == knock("localhost", port=443)


@pytest.mark.parametrize("host", ["bridge.example", "bridge.example:8377", "Bridge.Example"])
def test_allowed_hosts(host):
    """A name of the configuration is ours, alone or with our port."""
    assert 0 == knock(host, allowed_hosts=["bridge.example"])
    assert 421 == knock("x.bridge.example", allowed_hosts=["bridge.example"])
    assert 421 == knock("bridge.example:9", allowed_hosts=["bridge.example"])


def test_allowed_host_with_a_port():
    """A name with a port is ours with that port only."""
    allowed = ["bridge.example:444"]

    assert 0 == knock("bridge.example:444", allowed_hosts=allowed)
    assert 421 == knock("bridge.example", allowed_hosts=allowed)


def test_configured_address_is_a_name():
    """The address we listen at is a name of ours, unless it stands for every one."""
    assert 0 == knock("192.0.2.7:8377", host="192.0.2.7")
    assert 0 == knock("[2001:db8::7]:8377", host="2001:db8::7")
    assert 421 == knock("0.0.0.0:8377", host="0.0.0.0")


@pytest.mark.parametrize(
    "origin", ["http://127.0.0.1:8377", "http://localhost:8377", "HTTP://[::1]:8377"]
)
def test_own_origins(origin):
    """A page of our own may speak to us."""
    assert 0 == knock(origin=origin)


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "",
        "https://localhost:8377",
        "http://localhost:3000",
        "http://localhost:8377.evil.example",
    ],
)
def test_other_origins_are_forbidden(origin):
    """A page from elsewhere is answered 403, with the right token, too."""
    assert 403 == knock(origin=origin)


def test_allowed_origins():
    """A page of the configuration may speak to us; with TLS our own is https."""
    assert 0 == knock(origin="https://app.example", allowed_origins=["https://app.example/"])
    assert 403 == knock(origin="http://app.example", allowed_origins=["https://app.example"])
    assert 0 == knock(origin="https://localhost:8377", tls=True)
    assert 403 == knock(origin="http://localhost:8377", tls=True)


def test_token_is_needed():
    """Without the token it is 401 with a challenge; a wrong one is called so."""
    found = guard()
    without = found.answer(HttpRequest("POST", "/mcp", (*NAMED, *JSON)))
    wrong = (b"authorization", b"Bearer " + TOKEN.encode()[:-1])
    refused = found.answer(HttpRequest("POST", "/mcp", (*NAMED, *JSON, wrong)))

    assert (401, b'Bearer realm="handoffd"') == (
        without.status,
        dict(without.headers)[b"www-authenticate"],
    )
    assert (401, b'Bearer realm="handoffd", error="invalid_token"') == (
        refused.status,
        dict(refused.headers)[b"www-authenticate"],
    )


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"Bearer",
        b"Bearer ",
        TOKEN.encode(),
        b"Basic " + TOKEN.encode(),
        b"Bearer " + TOKEN.encode() + b"x",
        b"Bearer \xff\xfe",
        b"bearer " + TOKEN.upper().encode(),
    ],
)
def test_what_is_no_token(value):
    """Nothing but the scheme and the whole token opens."""
    assert 401 == status(guard(), *NAMED, *JSON, (b"authorization", value))


def test_scheme_in_any_letters():
    """The scheme may be written small."""
    assert 0 == status(guard(), *NAMED, *JSON, (b"authorization", b"bearer " + TOKEN.encode()))


def test_two_credentials_are_none():
    """A header that is given twice is not taken, even if one of them is right."""
    wrong = (b"authorization", b"Bearer no")

    assert 401 == status(guard(), *NAMED, *JSON, *BEARER, wrong)
    assert 401 == status(guard(), *NAMED, *JSON, wrong, *BEARER)


def test_token_in_the_address_only_where_wanted():
    """The secret path opens when it is turned on; a wrong one looks like any other path."""
    secret = f"/mcp/{TOKEN}"
    on, off = guard(secret_path=True), guard()

    assert 0 == status(on, *NAMED, *JSON, path=secret)
    assert 404 == status(on, *NAMED, *JSON, path="/mcp/wrong")
    assert 404 == status(on, *NAMED, *JSON, path="/mcp/")
    assert 404 == status(on, *NAMED, *JSON, path=f"/{TOKEN}")
    assert 404 == status(on, *NAMED, *JSON, path=TOKEN)
    assert 404 == status(off, *NAMED, *JSON, path=secret)
    assert 401 == status(on, *NAMED, *JSON)


def test_secret_path_is_guarded_like_the_other():
    """On the secret path a strange name, page, method or type is refused all the same."""
    found, path = guard(secret_path=True), f"/mcp/{TOKEN}"
    page = (b"origin", b"http://evil.example")

    assert 421 == status(found, (b"host", b"evil.example"), *JSON, path=path)
    assert 403 == status(found, *NAMED, *JSON, page, path=path)
    assert 405 == status(found, *NAMED, *JSON, path=path, method="GET")
    assert 415 == status(found, *NAMED, path=path)


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS", "HEAD", "PATCH"])
def test_only_post(method):
    """Nothing is streamed unasked and no session is kept, so every other method is 405."""
    answer = guard().answer(HttpRequest(method, "/mcp", (*NAMED, *BEARER, *JSON)))

    assert (405, b"POST") == (answer.status, dict(answer.headers)[b"allow"])


@pytest.mark.parametrize(
    "kind", [b"text/plain", b"application/x-www-form-urlencoded", b"json", b""]
)
def test_only_json(kind):
    """What a page could send without asking first is answered 415."""
    assert 415 == status(guard(), *NAMED, *BEARER, (b"content-type", kind))


def test_json_with_a_charset():
    """A charset may be named."""
    kind = (b"content-type", b"Application/JSON; charset=utf-8")

    assert 0 == status(guard(), *NAMED, *BEARER, kind)


def test_health_tells_two_things():
    """/health needs no token, says that we are here and our version, and is guarded by name."""
    from handoff import __version__

    answer = guard().answer(HttpRequest("GET", "/health", NAMED))

    assert {"status": "ok", "version": __version__} == json.loads(answer.body)
    assert 200 == answer.status
    assert 405 == status(guard(), *NAMED, method="POST", path="/health")
    assert 421 == status(guard(), (b"host", b"evil.example"), method="GET", path="/health")


def test_unreadable_token_opens_nothing():
    """Where the token cannot be read nobody is let in, and health still answers."""

    def unsafe():
        raise HandoffError("others may read it")

    found = make_guard(HttpConfig(), tls=False, read_token=unsafe)

    assert 503 == status(found, *NAMED, *BEARER, *JSON)
    assert 200 == status(found, *NAMED, method="GET", path="/health")


@given(
    st.text(alphabet=st.characters(codec="latin-1")),
    st.binary(max_size=60),
    st.sampled_from(["GET", "POST"]),
)
def test_nothing_passes_without_the_token(path, credentials, method):
    """Whatever the path and the credentials, nobody without the token reaches the tools."""
    headers = (*NAMED, *JSON, (b"authorization", credentials))

    assert 0 != status(guard(secret_path=True), *headers, path=f"/mcp{path}", method=method)
