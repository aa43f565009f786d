"""Check HTTP requests: host names, origins and the token, and the answers to refused ones."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hmac import compare_digest
from http import HTTPStatus

from handoff import __version__
from handoff.common import wire
from handoff.common.errors import HandoffError
from handoffd.config import HttpConfig
from handoffd.threads.http_listener import bracketed

MCP_PATH = "/mcp"
HEALTH_PATH = "/health"
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
_EVERY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104  these addresses name no host
_HAS_PORT = re.compile(r":\d+$")


@dataclass(frozen=True, slots=True)
class HttpRequest:
    method: str
    path: str
    headers: tuple[tuple[bytes, bytes], ...]

    def header(self, name: bytes) -> str | None:
        """Return a header; one that is given twice is joined, so that it matches no valid value."""
        found = [value for key, value in self.headers if key == name]
        return b",".join(found).decode("latin-1") if found else None


@dataclass(frozen=True, slots=True)
class Answer:
    status: HTTPStatus
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Guard:
    hosts: frozenset[str]
    origins: frozenset[str]
    secret_path: bool
    read_token: Callable[[], str]

    def answer(self, request: HttpRequest) -> Answer | None:
        """Return the answer to a request that may not reach the tools; None if it may."""
        if (request.header(b"host") or "").lower() not in self.hosts:
            return _refusal(HTTPStatus.MISDIRECTED_REQUEST, "Not by that name: see allowed_hosts")
        origin = request.header(b"origin")
        if origin is not None and origin.lower() not in self.origins:
            return _refusal(HTTPStatus.FORBIDDEN, "Not from that page: see allowed_origins")
        if request.path == HEALTH_PATH:
            return _health(request)
        return self._check_token(request) or _check_form(request)

    def _check_token(self, request: HttpRequest) -> Answer | None:
        try:
            token = self.read_token()
        except (HandoffError, OSError):
            return _refusal(HTTPStatus.SERVICE_UNAVAILABLE, "The token cannot be read: see status")
        if request.path == MCP_PATH:
            return _check_credentials(request, token)
        given = request.path.removeprefix(f"{MCP_PATH}/")
        if self.secret_path and given != request.path and _same(given, token):
            return None
        return _refusal(HTTPStatus.NOT_FOUND, f"There is nothing here but {MCP_PATH}")


def make_guard(settings: HttpConfig, *, tls: bool, read_token: Callable[[], str]) -> Guard:
    scheme, usual_port = ("https", 443) if tls else ("http", 80)
    own = [*LOOPBACK_NAMES]
    if settings.host not in _EVERY_ADDRESS:
        own.append(bracketed(settings.host))
    hosts = {f"{name}:{settings.port}" for name in own}
    if settings.port == usual_port:
        hosts |= set(own)
    origins = {f"{scheme}://{host}" for host in hosts}
    for name in settings.allowed_hosts:
        hosts |= {name} if _HAS_PORT.search(name) else {name, f"{name}:{settings.port}"}
    origins |= {origin.rstrip("/") for origin in settings.allowed_origins}
    return Guard(_lower(hosts), _lower(origins), settings.secret_path, read_token)


def _lower(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)


def _same(given: str, token: str) -> bool:
    # Compare in constant time, so that an attacker cannot guess the token letter by letter.
    return compare_digest(given.encode("utf-8", "replace"), token.encode())


def _check_credentials(request: HttpRequest, token: str) -> Answer | None:
    given = request.header(b"authorization")
    scheme, _, presented = (given or "").partition(" ")
    if scheme.lower() == "bearer" and _same(presented.strip(), token):
        return None
    text = "That is not the token" if given else "A token is needed"
    challenge = 'Bearer realm="handoffd"' + (', error="invalid_token"' if given else "")
    headers = ((b"www-authenticate", challenge.encode()),)
    return _refusal(HTTPStatus.UNAUTHORIZED, f"{text}: handoff token show", headers)


def _check_form(request: HttpRequest) -> Answer | None:
    if request.method != "POST":
        # We send nothing unasked and keep no session: there is nothing to GET or to DELETE.
        allowed = ((b"allow", b"POST"),)
        return _refusal(HTTPStatus.METHOD_NOT_ALLOWED, "Every message is a POST", allowed)
    kind = (request.header(b"content-type") or "").partition(";")[0].strip().lower()
    if kind != "application/json":
        return _refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send application/json")
    return None


def _health(request: HttpRequest) -> Answer:
    if request.method not in ("GET", "HEAD"):
        allowed = ((b"allow", b"GET, HEAD"),)
        return _refusal(HTTPStatus.METHOD_NOT_ALLOWED, "There is only GET", allowed)
    return Answer(HTTPStatus.OK, json.dumps({"status": "ok", "version": __version__}).encode())


def _refusal(
    status: HTTPStatus, text: str, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> Answer:
    error = {"code": wire.INVALID_REQUEST, "message": text}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    # The rest of a refused request is not read.
    return Answer(status, body, (*headers, (b"connection", b"close")))
