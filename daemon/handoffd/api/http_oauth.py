"""OAuth for MCP over HTTP, by the SDK's own handlers: every request waits for a person's approval.

Clients are public: they prove by PKCE and by their redirect address who they are, and get no secret
that we would have to keep. The browser of the person shows a code, which is approved in a terminal.
"""

import base64
import hashlib
import json
import secrets
from collections.abc import Mapping
from html import escape
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from mcp.server.auth.handlers.authorize import AuthorizationHandler
from mcp.server.auth.handlers.metadata import MetadataHandler
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    RegistrationError,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.routes import (
    AUTHORIZATION_PATH,
    REGISTRATION_PATH,
    REVOCATION_PATH,
    TOKEN_PATH,
    build_metadata,
    build_resource_metadata_url,
    create_auth_routes,
    create_protected_resource_routes,
)
from mcp.server.auth.settings import ClientRegistrationOptions, RevocationOptions
from mcp.server.transport_security import RequestBodyLimitMiddleware
from mcp.shared.auth import DEFAULT_GRANT_TYPES, OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl, AnyUrl, TypeAdapter
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route, Router

from handoff.common.errors import HandoffError
from handoff.common.plain_text import plain_line
from handoffd.api.http_guard import MCP_PATH, OAuthAccess
from handoffd.runtime import clock, log
from handoffd.store.core import CoreStore
from handoffd.store.oauth import OAuthGrant

APPROVAL_PATH = "/approve/"
_SERVER_METADATA_PATH = "/.well-known/oauth-authorization-server"
CODE_SECONDS = 120.0
ACCESS_SECONDS = 3600
REFRESH_SECONDS = 30 * clock.DAY_SECONDS
_POLL_SECONDS = 2
_SECRET_BYTES = 32
_BODY_MAX_BYTES = 16 << 10
_NAME_MAX = 80
_TEXT_MAX = 2000
_REDIRECTS_MAX = 5
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_URL = TypeAdapter(AnyHttpUrl, config={"url_preserve_empty_path": True})
_PAGE_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>handoffd</title>
<h1>{title}</h1>{text}</html>"""
_WAITING = """<p>A client that calls itself <b>{name}</b> wants to use your threads.
It will be answered at <b>{host}</b>.</p>
<p>If you have just asked for this yourself, approve it in a terminal, where handoffd runs:</p>
<pre>handoff token approve {code}</pre><p>This page goes on by itself then.</p>"""


class OAuthClientRecord(OAuthClientInformationFull):
    def validate_scope(self, requested_scope: str | None) -> list[str] | None:
        """Accept any scope: there is only one kind of access."""
        return requested_scope.split() if requested_scope else None

    def validate_redirect_uri(self, redirect_uri: AnyUrl | None) -> AnyUrl:
        """Accept a registered address; a program on the client's machine may use any port of it."""
        if redirect_uri is not None and _without_port(redirect_uri) in map(
            _without_port, self.redirect_uris or ()
        ):
            return redirect_uri
        return super().validate_redirect_uri(redirect_uri)


class _Provider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Answers the questions of the SDK's handlers from core.db."""

    def __init__(self, core: CoreStore, public_url: str) -> None:
        self._core = core
        self._public_url = public_url

    async def get_client(self, client_id: str) -> OAuthClientRecord | None:
        found = self._core.oauth.clients(client_id)
        if len(found) != 1 or found[0].id != client_id:
            return None
        return OAuthClientRecord.model_validate_json(found[0].metadata)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        """Keep a client; the SDK answers with `client_info` as it is changed here."""
        uris = [str(uri) for uri in client_info.redirect_uris or ()]
        if len(uris) > _REDIRECTS_MAX or not all(map(is_safe_redirect, uris)):
            text = "redirect_uris: at most 5, each https, or http to localhost"
            raise RegistrationError("invalid_redirect_uri", text)
        client_info.token_endpoint_auth_method = "none"  # noqa: S105  the name of a method
        client_info.client_secret = client_info.client_secret_expires_at = None
        client_info.grant_types = list(DEFAULT_GRANT_TYPES)
        name = plain_line((client_info.client_name or "")[:_NAME_MAX]) or "a client without a name"
        kept = {"client_id", "redirect_uris", "token_endpoint_auth_method", "grant_types"}
        metadata = client_info.model_dump_json(include=kept)
        added = self._core.oauth.add_client(client_info.client_id, name, metadata, clock.wall())
        if not added:
            text = "Too many clients wait for approval. Try again in ten minutes."
            raise RegistrationError("invalid_client_metadata", text)
        log.get().info("oauth_client_registered", client=client_info.client_id)

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        """Return the address of the page that shows the approval code."""
        if (params.resource or self._resource).rstrip("/") != self._resource:
            raise AuthorizeError("invalid_target", f"The resource here is {self._resource}")
        request = params.model_dump(mode="json")
        if any(len(str(value)) > _TEXT_MAX for value in request.values()):
            raise AuthorizeError("invalid_request", "A parameter is too long")
        page = secrets.token_urlsafe(_SECRET_BYTES)
        asked = {"page": page, "approval": approval_code(page)}
        text = json.dumps(request)
        if not self._core.oauth.ask(client.client_id, text, asked, clock.wall()):
            text = "Too many requests of this client wait for approval"
            raise AuthorizeError("temporarily_unavailable", text)
        return self._public_url + APPROVAL_PATH + page

    @property
    def _resource(self) -> str:
        return self._public_url + MCP_PATH

    async def load_authorization_code(
        self, _client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        grant = self._find("code", authorization_code)
        if grant is None:
            return None
        asked = AuthorizationParams.model_validate_json(grant.request)
        return AuthorizationCode(
            code=authorization_code,
            scopes=asked.scopes or [],
            expires_at=grant.expires_at,
            client_id=grant.client_id,
            code_challenge=asked.code_challenge,
            redirect_uri=asked.redirect_uri,
            redirect_uri_provided_explicitly=asked.redirect_uri_provided_explicitly,
        )

    async def exchange_authorization_code(
        self, _client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        return self._exchange("code", authorization_code.code, authorization_code.scopes)

    async def load_refresh_token(
        self, _client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        grant = self._find("refresh", refresh_token)
        return grant and RefreshToken(
            token=refresh_token, client_id=grant.client_id, scopes=_scopes(grant)
        )

    async def exchange_refresh_token(
        self, _client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        return self._exchange("refresh", refresh_token.token, scopes)

    async def load_access_token(self, token: str) -> AccessToken | None:
        grant = self._find("access", token)
        return grant and AccessToken(token=token, client_id=grant.client_id, scopes=_scopes(grant))

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self._core.oauth.end(token.token)

    def accepts(self, token: str) -> bool:
        return self._find("access", token) is not None

    def _find(self, kind: str, secret: str) -> OAuthGrant | None:
        return self._core.oauth.find(kind, secret, clock.wall())

    def _exchange(self, kind: str, spent: str, scopes: list[str]) -> OAuthToken:
        now = clock.wall()
        access, refresh = (secrets.token_urlsafe(_SECRET_BYTES) for _ in range(2))
        new = {
            "access": (access, now + ACCESS_SECONDS),
            "refresh": (refresh, now + REFRESH_SECONDS),
        }
        if not self._core.oauth.exchange(kind, spent, new, now):
            raise TokenError("invalid_grant", "It was used before, or is no longer valid")
        return OAuthToken(
            access_token=access,
            expires_in=ACCESS_SECONDS,
            refresh_token=refresh,
            scope=" ".join(scopes) or None,
        )

    async def page(self, request: Request) -> Response:
        """Show the approval code; lead back to the client when the grant is approved."""
        secret = request.path_params["secret"]
        grant = self._find("page", secret)
        client = grant and await self.get_client(grant.client_id)
        if grant is None or client is None or grant.spent:
            text = "<p>Begin again in the client.</p>"
            return _html(HTTPStatus.NOT_FOUND, "This request is over", text)
        asked = AuthorizationParams.model_validate_json(grant.request)
        if not grant.approved:
            name = self._core.oauth.clients(grant.client_id)[0].name
            shown = {"name": name, "host": urlsplit(str(asked.redirect_uri)).netloc}
            text = _WAITING.format(
                **{key: escape(value) for key, value in shown.items()}, code=approval_code(secret)
            )
            again = {"Refresh": str(_POLL_SECONDS)}
            return _html(HTTPStatus.OK, "Approve this client", text, again)
        code, now = secrets.token_urlsafe(_SECRET_BYTES), clock.wall()
        if not self._core.oauth.exchange("page", secret, {"code": (code, now + CODE_SECONDS)}, now):
            return _html(HTTPStatus.NOT_FOUND, "This request is over", "")
        back = construct_redirect_uri(str(asked.redirect_uri), code=code, state=asked.state)
        return RedirectResponse(back, HTTPStatus.FOUND, _PAGE_HEADERS)


def _without_port(uri: AnyUrl) -> str:
    """Return an address for comparison: the port of a loopback address is left out."""
    parts = urlsplit(str(uri))
    is_local = parts.scheme == "http" and parts.hostname in _LOOPBACK
    return parts._replace(netloc=f"{parts.hostname}").geturl() if is_local else parts.geturl()


def is_safe_redirect(uri: str) -> bool:
    """Return True for an address to which a browser may be led: https, or http to this machine."""
    parts = urlsplit(uri)
    if len(uri) > _TEXT_MAX or parts.fragment or "@" in parts.netloc or not parts.hostname:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)


def approval_code(page: str) -> str:
    """Return the code that a page shows. It is derived, so that only its hash is stored."""
    digest = hashlib.sha256(f"approval {page}".encode()).digest()
    code = base64.b32encode(digest).decode()[:8]
    return f"{code[:4]}-{code[4:]}"


def _scopes(grant: OAuthGrant) -> list[str]:
    return AuthorizationParams.model_validate_json(grant.request).scopes or []


def _html(
    status: HTTPStatus, title: str, text: str, headers: Mapping[str, str] | None = None
) -> HTMLResponse:
    page = _PAGE.format(title=title, text=text)
    return HTMLResponse(page, status, {**_PAGE_HEADERS, **(headers or {})})


class OAuthApp:
    """The ASGI application of all addresses but that of the tools."""

    def __init__(self, core: CoreStore, public_url: str) -> None:
        self._provider = _Provider(core, public_url)
        self._page_url = public_url + APPROVAL_PATH
        issuer = _URL.validate_python(public_url)
        resource = _URL.validate_python(public_url + MCP_PATH)
        self._router = RequestBodyLimitMiddleware(
            Router(self._routes(issuer, resource)), _BODY_MAX_BYTES
        )
        metadata_url = build_resource_metadata_url(resource)
        self.access = OAuthAccess(
            paths=frozenset(
                (
                    AUTHORIZATION_PATH,
                    TOKEN_PATH,
                    REGISTRATION_PATH,
                    REVOCATION_PATH,
                    _SERVER_METADATA_PATH,
                    urlsplit(str(metadata_url)).path,
                )
            ),
            page_path=APPROVAL_PATH,
            metadata_url=str(metadata_url),
            accepts=self._provider.accepts,
        )

    def _routes(self, issuer: AnyHttpUrl, resource: AnyHttpUrl) -> list[Route]:
        registration = ClientRegistrationOptions(enabled=True)
        revocation = RevocationOptions(enabled=True)
        metadata = build_metadata(issuer, None, registration, revocation)
        metadata.token_endpoint_auth_methods_supported = ["none"]
        metadata.revocation_endpoint_auth_methods_supported = ["none"]
        made = create_auth_routes(self._provider, issuer, None, registration, revocation)
        ours = (AUTHORIZATION_PATH, _SERVER_METADATA_PATH)
        return [
            *(route for route in made if route.path not in ours),
            *create_protected_resource_routes(resource, [issuer], resource_name="handoffd"),
            Route(_SERVER_METADATA_PATH, MetadataHandler(metadata).handle, methods=["GET"]),
            Route(AUTHORIZATION_PATH, self._authorize, methods=["GET", "POST"]),
            Route(APPROVAL_PATH + "{secret}", self._provider.page, methods=["GET"]),
        ]

    async def _authorize(self, request: Request) -> Response:
        """Lead to our own page, or say the error here: nobody has approved the client's address.

        Anybody can register an address, so a redirect with an error would lead anywhere.
        """
        answer = await AuthorizationHandler(self._provider).handle(request)
        place = answer.headers.get("location")
        if place is None or place.startswith(self._page_url):
            return answer
        query = parse_qsl(urlsplit(place).query)
        said = {name: text for name, text in query if name in ("error", "error_description")}
        return JSONResponse(said, HTTPStatus.BAD_REQUEST, _PAGE_HEADERS)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request; an error comes before anything was sent."""
        try:
            await self._router(scope, receive, send)
        except ClientDisconnect:
            pass
        except MultiPartException:
            await JSONResponse({"error": "invalid_request"}, HTTPStatus.BAD_REQUEST)(
                scope, receive, send
            )
        except HandoffError as problem:  # core.db cannot be used now
            failure = {"error": "temporarily_unavailable", "error_description": problem.title}
            await JSONResponse(failure, HTTPStatus.SERVICE_UNAVAILABLE)(scope, receive, send)
