"""token: the clients that may use MCP over HTTP by OAuth; a person approves and revokes them."""

import json
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field

from handoff.common.errors import HandoffError
from handoffd.api.method import Directory, Method, MethodReply, Params, Send
from handoffd.api.terminal_text import Style, table
from handoffd.context import Context
from handoffd.runtime import clock, log
from handoffd.store.oauth import OAuthClient, OAuthStore

Data = dict[str, Any]
_ID_SHOWN = 8
_CODE_CHARACTERS = 8
EVERY = "*"


class TokenParams(Params):
    action: Literal["look", "approve", "list", "revoke"] = Field(
        description="`look` says which client a code belongs to"
    )
    cwd: Directory = Field(default="/", description="ignored")
    code: str = Field(default="", max_length=100, description="the code that the page shows")
    client: str = Field(default="", max_length=100, description="the start of an id, or `*`")


async def handle(context: Context, params: TokenParams, _send: Send) -> MethodReply:
    store = context.core.oauth
    if params.action == "list":
        found = [_described(client) for client in store.clients()]
    elif params.action == "revoke":
        found = _revoke(store, params.client)
    else:
        found = [_approve(store, params.code, look=params.action == "look")]
    return MethodReply({"action": params.action, "clients": found})


def _approve(store: OAuthStore, given: str, *, look: bool) -> Data:
    code, now = _spelled(given), clock.wall()
    grant = store.find("approval", code, now)
    client = store.clients(grant.client_id)[0] if grant is not None and not grant.spent else None
    if grant is None or client is None or not (look or store.approve(code, now)):
        raise HandoffError(
            "No client waits with this code.",
            "The page in your browser shows the code; it is valid for ten minutes, and once.",
        )
    if not look:
        log.get().info("oauth_client_approved", client=client.id)
    asked = json.loads(grant.request)
    return {**_described(client), "answered_at": urlsplit(asked["redirect_uri"]).netloc}


def _spelled(given: str) -> str:
    """Return a code in its own spelling, however it was typed."""
    code = "".join(filter(str.isalnum, given)).upper()
    return f"{code[:4]}-{code[4:]}" if len(code) == _CODE_CHARACTERS else code


def _revoke(store: OAuthStore, start: str) -> list[Data]:
    found = store.clients("" if start == EVERY else start) if start else []
    if start != EVERY and len(found) != 1:
        why = "Several ids begin so." if found else "There is no such client."
        raise HandoffError(why, "See: handoff token list")
    for client in found:
        store.revoke(client.id)
        log.get().info("oauth_client_revoked", client=client.id)
    return [_described(client) for client in found]


def _described(client: OAuthClient) -> Data:
    uris = json.loads(client.metadata)["redirect_uris"]
    return {
        "id": client.id,
        "name": client.name,
        "answered_at": ", ".join(sorted({urlsplit(uri).netloc for uri in uris})),
        "approved_at": client.approved_at and clock.iso(client.approved_at),
        "ends_at": client.ends_at and clock.iso(client.ends_at),
    }


def render(data: Data, style: Style) -> str:
    clients = data["clients"]
    if data["action"] == "list":
        return _listed(clients, style)
    done = {"look": "waits", "approve": "is approved", "revoke": "has no access any more"}
    lines = [
        f"{client['name']} ({client['answered_at']}) {done[data['action']]}.\n"
        for client in clients
    ]
    return "".join(lines) or "There is no client.\n"


def _listed(clients: list[Data], style: Style) -> str:
    if not clients:
        return "No client has asked for access by OAuth.\n"
    rows = [
        (
            client["id"][:_ID_SHOWN],
            f"since {client['approved_at']}" if client["approved_at"] else "not approved",
            f"until {client['ends_at']}" if client["ends_at"] else "",
            f"{client['name']} ({client['answered_at']})",
        )
        for client in clients
    ]
    return "".join(f"{line}\n" for line in table(rows, style.columns))


METHOD = Method("token", TokenParams, handle, render)
