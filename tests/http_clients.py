"""A daemon with HTTP turned on, and requests to it as a client would send them."""

import asyncio
import contextlib
import http.client
import json
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conftest import DaemonSandbox, wait_for

INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "a test", "version": "1"},
}
MODERN = "2026-07-28"
MODERN_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def configure(sandbox: DaemonSandbox, **settings) -> int:
    """Write the [http] section; returns the port."""
    settings = {"enabled": True, "port": free_port(), **settings}
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    path = sandbox.home / ".config/handoffd/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["[http]", *lines]) + "\n")
    return settings["port"]


def reload(sandbox: DaemonSandbox, **settings) -> int:
    port = configure(sandbox, **settings)
    sandbox.process.send_signal(signal.SIGHUP)
    return port


def open_listener(sandbox: DaemonSandbox, **settings) -> "Visitor":
    """Start a daemon with HTTP turned on."""
    port = configure(sandbox, **settings)
    sandbox.transcripts.mkdir(parents=True, exist_ok=True)
    sandbox.start()
    wait_for(lambda: sandbox.call("status")["http"], what="the listener is open")
    return Visitor(sandbox, port)


def warnings(sandbox: DaemonSandbox) -> dict[str, str]:
    found = sandbox.request("status")["result"]["warnings"]
    return {warning["code"]: warning["text"] for warning in found}


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def result(self) -> Any:
        assert "result" in self.json, self
        return self.json["result"]


@dataclass
class Visitor:
    """An HTTP client that sends the given requests, with the token unless told otherwise."""

    sandbox: DaemonSandbox
    port: int
    tls: ssl.SSLContext | None = None
    version: str | None = "2025-11-25"
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def token(self) -> str:
        return (self.sandbox.state / "http-token").read_text().strip()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def connect(self) -> http.client.HTTPConnection:
        if self.tls is not None:
            return http.client.HTTPSConnection("localhost", self.port, timeout=90, context=self.tls)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=90)

    def send(self, method: str, path: str, body: bytes | None = None, headers=None) -> Answer:
        """Send one request with these headers and no others; None leaves one out."""
        connection = self.connect()
        try:
            given = {k: v for k, v in {**self.headers, **(headers or {})}.items() if v is not None}
            connection.request(method, path, body, given)
            reply = connection.getresponse()
            return Answer(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read())
        finally:
            connection.close()

    def post(self, frame: Any, path: str = "/mcp", **headers: str | None) -> Answer:
        """Send a frame as MCP wants it; a header may be changed, or left out by None."""
        given = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Authorization": f"Bearer {self.token}",
            "MCP-Protocol-Version": self.version,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        body = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
        return self.send("POST", path, body, given)

    def ask(self, method: str, params: dict | None = None, **headers: str | None) -> Any:
        """Ask, and return the result."""
        return self.post(frame(method, params), **headers).result

    def ask_modern(self, method: str, params: dict | None = None) -> Any:
        named = {"Mcp-Name": params["name"]} if params and "name" in params else {}
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, **named}
        return self.ask(method, {**(params or {}), "_meta": MODERN_META}, **headers)

    def call(self, tool: str, **arguments) -> Any:
        """Call a tool, and return its structured result."""
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})
        assert not result["isError"], result
        return result["structuredContent"]

    def raw(self, data: bytes) -> socket.socket:
        """Send bytes on a connection, and leave it open."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=90)
        connection.sendall(data)
        return connection


def frame(method: str, params: dict | None = None) -> dict:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}


def rest(connection: socket.socket) -> bytes:
    """Read until the other side closes, in good order or not."""
    found = b""
    try:
        while data := connection.recv(1 << 16):
            found += data
    except ConnectionResetError:
        pass
    return found


def certificate(directory: Path, name: str = "listener") -> tuple[str, str]:
    """Make a certificate for localhost; returns its path and that of its key."""
    import datetime as dt

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = directory / f"{name}.pem", directory / f"{name}.key"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return str(paths[0]), str(paths[1])


@contextlib.contextmanager
def tls_proxy(directory: Path, target: Callable[[], int]) -> Iterator["Proxy"]:
    """Speak TLS on a port of loopback and pass the bytes on, as a reverse proxy does."""
    made, key = certificate(directory, "proxy")
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(made, key)
    opened: Future[tuple[int, Callable[[], object]]] = Future()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError), contextlib.closing(writer):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError), contextlib.closing(writer):
            inner = await asyncio.open_connection("127.0.0.1", target())
            await asyncio.gather(pass_on(reader, inner[1]), pass_on(inner[0], writer))

    async def listen() -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_side)
        port = server.sockets[0].getsockname()[1]
        opened.set_result((port, lambda: loop.call_soon_threadsafe(stop.set)))
        await stop.wait()
        server.close()

    thread = threading.Thread(target=lambda: asyncio.run(listen()), daemon=True)
    thread.start()
    port, stop = opened.result(90)
    try:
        yield Proxy(port, ssl.create_default_context(cafile=made))
    finally:
        stop()
        thread.join(90)


@dataclass
class Proxy:
    port: int
    # What a client needs to trust the proxy's certificate.
    trust: ssl.SSLContext

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"
