"""A mail server of our own on loopback: MCP over HTTP, with the tools of the documented interface.

`newer` gives every agent a token and wants it back; an older one knows no tokens. `mode` is how it
misbehaves, `form` how it answers.
"""

import contextlib
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TEXT = {"type": "string"}
OLDER = {
    "ensure_project": ["human_key"],
    "register_agent": ["project_key", "program", "model", "name", "task_description"],
    "send_message": [
        "project_key", "sender_name", "to", "subject", "body_md", "importance", "thread_id",
    ],
    "search_messages": ["project_key", "query", "limit"],
    "fetch_inbox": ["project_key", "agent_name", "limit", "include_bodies"],
}  # fmt: skip
NEWER = {
    **OLDER,
    "register_agent": [*OLDER["register_agent"], "registration_token"],
    "send_message": [*OLDER["send_message"], "sender_token"],
    "search_messages": [*OLDER["search_messages"], "agent_name", "registration_token"],
    "fetch_inbox": [*OLDER["fetch_inbox"], "registration_token"],
    "request_contact": ["project_key", "from_agent", "to_agent", "registration_token"],
    "respond_contact": ["project_key", "from_agent", "to_agent", "accept", "registration_token"],
}
REDIRECTED_TO = "http://127.0.0.1:1/mcp/"


class RefusedError(Exception):
    """A tool refuses; the text is told to the client."""


class MailServer:
    """The server, in threads of its own; use it in a `with`."""

    def __init__(self, *, newer=True, bearer="", mode="", form="structured", contact=False):
        self.newer, self.bearer, self.mode, self.form = newer, bearer, mode, form
        self.contact = contact
        self.session_id = ""
        self.redirect_to = REDIRECTED_TO
        self.refusal = "the database is on fire"
        self.slow_seconds = 0.0
        self.tools = NEWER if newer else OLDER
        self.reserved = set()
        self.projects, self.agents, self.contacts, self.messages = set(), {}, set(), []
        self.seen = []  # (method or tool, arguments, headers)
        self.stopped = threading.Event()

    def __enter__(self):
        server = self

        class Handler(_Handler):
            mail = server

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.port = self._http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp/"
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self._http.shutdown()
        self._http.server_close()

    def forget(self):
        """Lose every registration, as a server does that was set up anew."""
        self.projects, self.agents, self.contacts = set(), {}, set()

    def calls(self, tool):
        """Return the arguments of every call of a tool."""
        return [arguments for name, arguments, _ in self.seen if name == tool]

    def names(self):
        return [name for name, _, _ in self.seen]

    def deliver(  # noqa: PLR0913  a message has these parts
        self, sender, thread_id, subject, body, *, created, to=()
    ):
        """Put in a message that another agent sent."""
        self.messages.append(
            {
                "id": len(self.messages) + 1, "from": sender, "to": list(to),
                "thread_id": thread_id, "subject": subject, "body_md": body,
                "importance": "normal", "ack_required": False, "created_ts": created,
            }
        )  # fmt: skip

    # The tools

    def call(self, tool, given):
        unknown = set(given) - set(self.tools.get(tool, ()))
        if tool not in self.tools or unknown:
            raise RefusedError(f"{tool}: Unexpected keyword argument {sorted(unknown)}")
        return getattr(self, tool)(**given)

    def ensure_project(self, human_key):
        self.projects.add(human_key)
        return {"id": 1, "slug": "a-project", "human_key": human_key}

    def register_agent(self, project_key, name="", registration_token="", **_):
        if project_key not in self.projects:
            raise RefusedError(f"Project '{project_key}' not found")
        if "*" in self.reserved and name:
            raise RefusedError("This name looks like a program; choose another")
        name = name or "BlueLake"
        held = self.agents.get((project_key, name))
        if name in self.reserved or (held and held != registration_token):
            raise RefusedError("That name is taken")
        token = held or (secrets.token_hex(16) if self.newer else "")
        self.agents[project_key, name] = token
        return {"id": 7, "name": name, **({"registration_token": token} if self.newer else {})}

    def send_message(self, project_key, sender_name, to, sender_token="", **rest):
        self._check(project_key, sender_name, sender_token)
        for name in to:
            if (project_key, name) not in self.agents:
                raise RefusedError(f"RECIPIENT_NOT_FOUND: {name}")
            if self.contact and (sender_name, name) not in self.contacts:
                raise RefusedError(f"Contact request required before messaging {name}")
        created = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + ".000000+00:00"
        self.deliver(
            sender_name, rest["thread_id"], rest["subject"], rest["body_md"], created=created, to=to
        )
        self.messages[-1]["importance"] = rest["importance"]
        return {"deliveries": [{"project": project_key, "payload": self.messages[-1]}], "count": 1}

    def search_messages(self, project_key, query, limit=20, agent_name="", registration_token=""):
        if self.newer:
            self._check(project_key, agent_name, registration_token)
        if ":" in query:
            raise RefusedError("fts5: syntax error")
        found = [one for one in self.messages if query in one["subject"] + one["body_md"]]
        return [_without(one, "body_md") for one in reversed(found)][:limit]

    def fetch_inbox(
        self, project_key, agent_name, limit=20, include_bodies=False, registration_token=""
    ):
        self._check(project_key, agent_name, registration_token)
        found = [one for one in reversed(self.messages) if agent_name in one["to"]][:limit]
        return found if include_bodies else [_without(one, "body_md") for one in found]

    def request_contact(self, project_key, from_agent, to_agent, registration_token=""):
        self._check(project_key, from_agent, registration_token)
        return {"status": "pending"}

    def respond_contact(self, project_key, from_agent, to_agent, accept, registration_token=""):
        self._check(project_key, to_agent, registration_token)
        self.contacts.add((from_agent, to_agent))
        return {"approved": accept}

    def _check(self, project, name, token):
        if (project, name) not in self.agents:
            raise RefusedError(f"Agent '{name}' is not registered in this project")
        if self.agents[project, name] != token:
            raise RefusedError(f"registration_token {token!r} is wrong")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    mail: MailServer

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.mail.seen.append(("GET", {}, dict(self.headers)))
        self._reply(405, b"")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = json.loads(body)
        parameters = request.get("params", {})
        name = parameters.get("name") or request["method"]
        given = parameters.get("arguments", parameters)
        self.mail.seen.append((name, given, dict(self.headers)))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            misbehave = getattr(self, f"_{self.mail.mode}", None)
            if not misbehave or misbehave(name):
                self._answer(request, name, given)

    def _answer(self, request, name, given):
        mail = self.mail
        if mail.bearer and self.headers["Authorization"] != f"Bearer {mail.bearer}":
            self._reply(401, f"wrong: {self.headers['Authorization']}".encode())
        elif mail.session_id and name == "initialize":
            self._result(request, {"protocolVersion": "2025-06-18"}, mail.session_id)
        elif mail.session_id and self.headers["Mcp-Session-Id"] != mail.session_id:
            self._reply(400, b'{"error": {"message": "Bad Request: Missing session ID"}}')
        elif "id" not in request:
            self._reply(202, b"")
        elif name == "tools/list":
            self._result(request, {"tools": self._listed()})
        else:
            self._result(request, self._done(name, given))

    def _done(self, name, given):
        try:
            return self._wrapped(self.mail.call(name, given))
        except RefusedError as problem:
            return {"content": [{"type": "text", "text": str(problem)}], "isError": True}

    def _listed(self):
        return [
            {"name": name, "inputSchema": {"properties": dict.fromkeys(keys, TEXT)}}
            for name, keys in self.mail.tools.items()
        ]

    def _wrapped(self, value):
        if self.mail.form == "structured":
            structured = value if isinstance(value, dict) else {"result": value}
            return {"content": [], "structuredContent": structured, "isError": False}
        texts = [{"result": value}] if self.mail.form == "wrapped" else value
        texts = texts if isinstance(texts, list) else [texts]
        return {"content": [{"type": "text", "text": json.dumps(text)} for text in texts]}

    def _result(self, request, result, session_id=""):
        text = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result})
        if self.mail.form not in ("events", "chunks"):
            self._reply(200, text.encode(), session_id=session_id)
            return
        events = f": hello\r\n\r\nevent: message\r\ndata: {NOTICE}\r\n\r\ndata: {text}\r\n\r\n"
        chunked = {"Transfer-Encoding": "chunked"} if self.mail.form == "chunks" else {}
        self._head(200, {"Content-Type": "text/event-stream", **chunked})
        for part in events.encode().splitlines(keepends=True):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part) if chunked else part)
        # Such a stream may stay open: no client has to wait for its end.
        self.mail.stopped.wait(5)

    def _reply(self, status, body, session_id=""):
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        if session_id:
            headers["Mcp-Session-Id"] = session_id
        self._head(status, headers)
        self.wfile.write(body)

    def _head(self, status, headers):
        self.close_connection = True
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    # How it misbehaves; true: after that it answers

    def _slow(self, name):
        return not self.mail.stopped.wait(self.mail.slow_seconds)

    def _lost(self, name):
        """Do the requested work, and never say so."""
        if name != "send_message":
            return True
        self.mail.call(name, self.mail.seen[-1][1])
        return self._hang(name)

    def _hang(self, name):
        self.mail.stopped.wait(30)

    def _drip(self, name):
        self._head(200, {"Content-Type": "application/json"})
        self._trickle(b" ")

    def _drip_head(self, name):
        self.close_connection = True
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        self._trickle(b"x")

    def _drip_events(self, name):
        self._head(200, {"Content-Type": "text/event-stream"})
        self._trickle(b": still here\n\n")

    def _trickle(self, part):
        while not self.mail.stopped.wait(0.01):
            self.wfile.write(part)

    def _huge(self, name):
        self._head(200, {"Content-Type": "application/json"})
        for _ in range(64):
            self.wfile.write(b" " * (1 << 20))

    def _huge_inbox(self, name):
        return name != "fetch_inbox" or self.mail.seen[-1][1]["limit"] < 10 or self._huge(name)

    def _garbage(self, name):
        self._reply(200, b"<html>hello</html>")

    def _no_http(self, name):
        self.close_connection = True
        self.wfile.write(b"SSH-2.0-whatever\r\n")

    def _cut(self, name):
        self._head(200, {"Content-Length": "1000"})
        self.wfile.write(b'{"jsonrpc"')

    def _hang_up(self, name):
        self.close_connection = True

    def _fault(self, name):
        self._reply(500, str(dict(self.headers)).encode())

    def _missing(self, name):
        self._reply(404, b"")

    def _redirect(self, name):
        self._head(307, {"Location": self.mail.redirect_to, "Content-Length": "0"})

    def _refuse(self, name):
        said = [{"type": "text", "text": self.mail.refusal}]
        body = {"jsonrpc": "2.0", "id": "1", "result": {"isError": True, "content": said}}
        self._reply(200, json.dumps(body).encode())

    def _no_method(self, name):
        error = {"code": -32601, "message": self.mail.refusal}
        self._reply(200, json.dumps({"jsonrpc": "2.0", "id": "1", "error": error}).encode())


NOTICE = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})


def _without(message, key):
    return {name: message[name] for name in message if name != key}
