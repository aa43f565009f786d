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
class OAuthAccess:
    """The part of OAuth that the guard needs."""

    # The addresses that need no token, and the beginning of those of the approval pages.
    paths: frozenset[str]
    page_path: str
    # The document that says how a token is got.
    metadata_url: str
    accepts: Callable[[str], bool]

    def covers(self, path: str) -> bool:
        return path in self.paths or path.startswith(self.page_path)


@dataclass(frozen=True, slots=True)
class Guard:
    hosts: frozenset[str]
    origins: frozenset[str]
    secret_path: bool
    read_token: Callable[[], str]
    oauth: OAuthAccess | None = None

    def answer(self, request: HttpRequest) -> Answer | None:
        """Return the answer to a request that may not reach the tools; None if it may."""
        if (request.header(b"host") or "").lower() not in self.hosts:
            return _refusal(HTTPStatus.MISDIRECTED_REQUEST, "Not by that name: see allowed_hosts")
        origin = request.header(b"origin")
        if origin is not None and origin.lower() not in self.origins:
            return _refusal(HTTPStatus.FORBIDDEN, "Not from that page: see allowed_origins")
        if request.path == HEALTH_PATH:
            return _health(request)
        if self.oauth is not None and self.oauth.covers(request.path):
            return _check_oauth_form(request)
        return self._check_token(request) or _check_form(request)

    def _check_token(self, request: HttpRequest) -> Answer | None:
        try:
            token = self.read_token()
        except (HandoffError, OSError):
            return _refusal(HTTPStatus.SERVICE_UNAVAILABLE, "The token cannot be read: see status")
        if request.path == MCP_PATH:
            return self._check_credentials(request, token)
        given = request.path.removeprefix(f"{MCP_PATH}/")
        if self.secret_path and given != request.path and _same(given, token):
            return None
        return _refusal(HTTPStatus.NOT_FOUND, f"There is nothing here but {MCP_PATH}")

    def _is_granted(self, token: str) -> bool:
        return self.oauth is not None and self.oauth.accepts(token)

    def _check_credentials(self, request: HttpRequest, token: str) -> Answer | None:
        given = request.header(b"authorization")
        scheme, _, presented = (given or "").partition(" ")
        if scheme.lower() == "bearer":
            try:
                if _same(presented.strip(), token) or self._is_granted(presented.strip()):
                    return None
            except HandoffError:
                # Without core.db nobody knows; a client that is told 401 would forget its tokens.
                return _refusal(HTTPStatus.SERVICE_UNAVAILABLE, "Try again: see handoff status")
        text = "That is not the token" if given else "A token is needed"
        challenge = 'Bearer realm="handoffd"' + (', error="invalid_token"' if given else "")
        if self.oauth is not None:
            challenge += f', resource_metadata="{self.oauth.metadata_url}"'
        headers = ((b"www-authenticate", challenge.encode()),)
        return _refusal(HTTPStatus.UNAUTHORIZED, f"{text}: handoff token show", headers)


def make_guard(
    settings: HttpConfig,
    *,
    tls: bool,
    read_token: Callable[[], str],
    oauth: OAuthAccess | None = None,
) -> Guard:
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
    if settings.public_url:
        origins.add(settings.public_url)
        hosts.add(settings.public_url.removeprefix("https://"))
    return Guard(_lower(hosts), _lower(origins), settings.secret_path, read_token, oauth)


def _lower(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)


def _same(given: str, token: str) -> bool:
    # Compare in constant time, so that an attacker cannot guess the token letter by letter.
    return compare_digest(given.encode("utf-8", "replace"), token.encode())


def _check_form(request: HttpRequest) -> Answer | None:
    if request.method != "POST":
        # We send nothing unasked and keep no session: there is nothing to GET or to DELETE.
        allowed = ((b"allow", b"POST"),)
        return _refusal(HTTPStatus.METHOD_NOT_ALLOWED, "Every message is a POST", allowed)
    return _check_type(request, ("application/json",))


def _check_oauth_form(request: HttpRequest) -> Answer | None:
    if request.method == "POST":
        return _check_type(request, ("application/json", "application/x-www-form-urlencoded"))
    if request.method in ("GET", "OPTIONS"):
        return None
    # A HEAD request must not spend an approval.
    allowed = ((b"allow", b"GET, POST"),)
    return _refusal(HTTPStatus.METHOD_NOT_ALLOWED, "There is only GET and POST", allowed)


def _check_type(request: HttpRequest, kinds: tuple[str, ...]) -> Answer | None:
    kind = (request.header(b"content-type") or "").partition(";")[0].strip().lower()
    if kind in kinds:
        return None
    return _refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Send {' or '.join(kinds)}")


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
