"""The checks that a request to the HTTP server must pass."""

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
    """Return the status of the answer, or 0 if the request may use the tools."""
    answer = found.answer(HttpRequest(method, path, tuple(headers)))
    return 0 if answer is None else int(answer.status)


def status_for(name="127.0.0.1:8377", origin=None, **settings):
    headers = [(b"host", name.encode()), *BEARER, *JSON]
    if origin is not None:
        headers.append((b"origin", origin.encode()))
    return status(guard(**settings), *headers)


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8377", "localhost:8377", "LocalHost:8377", "[::1]:8377"]
)
def test_loopback_names_with_our_port(host):
    """A loopback name with our port is accepted, in any case."""
    assert 0 == status_for(host)


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
    """Another name or another port is answered with 421."""
    assert 421 == status_for(host)


def test_no_host_and_two_hosts():
    """A request without a Host header, or with two, is answered with 421."""
    twice = (*NAMED, *NAMED)

    assert 421 == status(guard(), *BEARER, *JSON)
    assert 421 == status(guard(), *twice, *BEARER, *JSON)


def test_usual_port_needs_no_mention():
    """For the default port of the scheme the name alone is accepted."""
    assert 0 == status_for("localhost", port=80)
    assert 0 == status_for("localhost", port=443, tls=True)
    assert 421 == status_for("localhost", port=443)


@pytest.mark.parametrize("host", ["bridge.example", "bridge.example:8377", "Bridge.Example"])
def test_allowed_hosts(host):
    """A configured name is accepted, alone or with our port."""
    assert 0 == status_for(host, allowed_hosts=["bridge.example"])
    assert 421 == status_for("x.bridge.example", allowed_hosts=["bridge.example"])
    assert 421 == status_for("bridge.example:9", allowed_hosts=["bridge.example"])


def test_allowed_host_with_a_port():
    """A configured name with a port is accepted with that port only."""
    allowed = ["bridge.example:444"]

    assert 0 == status_for("bridge.example:444", allowed_hosts=allowed)
    assert 421 == status_for("bridge.example", allowed_hosts=allowed)


def test_configured_address_is_a_name():
    """The address that we listen on is an accepted name, unless it is a wildcard."""
    assert 0 == status_for("192.0.2.7:8377", host="192.0.2.7")
    assert 0 == status_for("[2001:db8::7]:8377", host="2001:db8::7")
    assert 421 == status_for("0.0.0.0:8377", host="0.0.0.0")


@pytest.mark.parametrize(
    "origin", ["http://127.0.0.1:8377", "http://localhost:8377", "HTTP://[::1]:8377"]
)
def test_own_origins(origin):
    """A page of our own origin is accepted."""
    assert 0 == status_for(origin=origin)


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
    """A page of another origin is answered with 403, even with the right token."""
    assert 403 == status_for(origin=origin)


def test_allowed_origins():
    """A configured origin is accepted; with TLS our own origin is https."""
    assert 0 == status_for(origin="https://app.example", allowed_origins=["https://app.example/"])
    assert 403 == status_for(origin="http://app.example", allowed_origins=["https://app.example"])
    assert 0 == status_for(origin="https://localhost:8377", tls=True)
    assert 403 == status_for(origin="http://localhost:8377", tls=True)


def test_token_is_needed():
    """Without the token the answer is 401 with a challenge, and a wrong token is named as such."""
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
    """Only the scheme with the whole token is accepted."""
    assert 401 == status(guard(), *NAMED, *JSON, (b"authorization", value))


def test_scheme_in_any_letters():
    """The scheme may be in lower case."""
    assert 0 == status(guard(), *NAMED, *JSON, (b"authorization", b"bearer " + TOKEN.encode()))


def test_two_credentials_are_none():
    """A header that is given twice is refused, even if one value is right."""
    wrong = (b"authorization", b"Bearer no")

    assert 401 == status(guard(), *NAMED, *JSON, *BEARER, wrong)
    assert 401 == status(guard(), *NAMED, *JSON, wrong, *BEARER)


def test_token_in_the_address_only_where_wanted():
    """The secret path works only if it is enabled; a wrong one looks like any other path."""
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
    """On the secret path a wrong name, origin, method or type is refused, too."""
    found, path = guard(secret_path=True), f"/mcp/{TOKEN}"
    page = (b"origin", b"http://evil.example")

    assert 421 == status(found, (b"host", b"evil.example"), *JSON, path=path)
    assert 403 == status(found, *NAMED, *JSON, page, path=path)
    assert 405 == status(found, *NAMED, *JSON, path=path, method="GET")
    assert 415 == status(found, *NAMED, path=path)


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS", "HEAD", "PATCH"])
def test_only_post(method):
    """Every other method is 405, because there are no streams and no sessions."""
    answer = guard().answer(HttpRequest(method, "/mcp", (*NAMED, *BEARER, *JSON)))

    assert (405, b"POST") == (answer.status, dict(answer.headers)[b"allow"])


@pytest.mark.parametrize(
    "kind", [b"text/plain", b"application/x-www-form-urlencoded", b"json", b""]
)
def test_only_json(kind):
    """A type that a page can send without a preflight request is answered with 415."""
    assert 415 == status(guard(), *NAMED, *BEARER, (b"content-type", kind))


def test_json_with_a_charset():
    """A charset may be given."""
    kind = (b"content-type", b"Application/JSON; charset=utf-8")

    assert 0 == status(guard(), *NAMED, *BEARER, kind)


def test_health_tells_two_things():
    """/health needs no token, returns only a sign of life and our version, and checks the name."""
    from handoff import __version__

    answer = guard().answer(HttpRequest("GET", "/health", NAMED))

    assert {"status": "ok", "version": __version__} == json.loads(answer.body)
    assert 200 == answer.status
    assert 405 == status(guard(), *NAMED, method="POST", path="/health")
    assert 421 == status(guard(), (b"host", b"evil.example"), method="GET", path="/health")


def test_unreadable_token_opens_nothing():
    """If the token cannot be read every request is refused, and /health still answers."""

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
    """For any path and credentials, no request without the token reaches the tools."""
    headers = (*NAMED, *JSON, (b"authorization", credentials))

    assert 0 != status(guard(secret_path=True), *headers, path=f"/mcp{path}", method=method)
