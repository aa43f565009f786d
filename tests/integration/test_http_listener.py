"""The HTTP listener opens if it is enabled and safe, else it reports why, and harms no client."""

import asyncio
import signal
import socket
import ssl

import pytest

pytest.importorskip("mcp", reason="the package mcp is missing: pip install 'handoffd[http]'")

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from conftest import wait_for
from http_clients import (
    Visitor,
    certificate,
    configure,
    frame,
    open_listener,
    reload,
    rest,
    warnings,
)


@pytest.mark.quick
def test_off_by_default(live):
    """HTTP is off by default, leaves no file, and is not in the status."""
    assert live.call("status")["http"] is None
    assert "HTTP" not in live.handoff("status").stdout
    assert not (live.state / "http-token").exists()


def test_loaded_only_when_wanted(sandbox):
    """The daemon imports neither the SDK nor uvicorn until HTTP is enabled."""
    sandbox.environment["PYTHONPROFILEIMPORTTIME"] = "1"
    sandbox.transcripts.mkdir(parents=True)
    sandbox.start()
    wait_for(sandbox.settled)

    def imported() -> set[str]:
        lines = sandbox.log.read_text().splitlines()
        names = {line.rpartition("|")[2].strip() for line in lines if "import time:" in line}
        return names & {
            "handoffd.app",
            "mcp_types",
            "mcp.server.lowlevel.server",
            "uvicorn",
        }

    before = imported()
    reload(sandbox)
    wait_for(lambda: sandbox.call("status")["http"])

    assert {"handoffd.app"} == before
    assert {
        "handoffd.app",
        "mcp_types",
        "mcp.server.lowlevel.server",
        "uvicorn",
    } == imported()


@pytest.mark.quick
def test_turned_on_and_off_while_it_runs(live):
    """A reload opens, moves and closes the HTTP listener; the daemon stays the same process."""
    pid = live.call("status")["pid"]
    listener = Visitor(live, reload(live))
    wait_for(lambda: live.call("status")["http"] == listener.url)
    first = listener.post(frame("ping")).status
    moved = Visitor(live, reload(live))
    wait_for(lambda: live.call("status")["http"] == moved.url)
    second = moved.post(frame("ping")).status
    with pytest.raises(ConnectionRefusedError):
        listener.post(frame("ping"))
    reload(live, enabled=False)
    wait_for(lambda: live.call("status")["http"] is None)
    with pytest.raises(ConnectionRefusedError):
        moved.post(frame("ping"))

    assert [200, 200] == [first, second]
    assert (pid, {}) == (live.call("status")["pid"], warnings(live))


def test_status_and_doctor_know_it(sandbox):
    """Status names the address, and not the token; doctor finds nothing wrong."""
    listener = open_listener(sandbox, secret_path=True)
    shown = sandbox.handoff("status").stdout

    assert f"on http://127.0.0.1:{listener.port}/mcp\n" in shown
    assert listener.token not in shown
    wait_for(sandbox.settled)
    assert 0 == sandbox.handoff("doctor").returncode


@pytest.mark.quick
def test_token_is_made_at_the_first_start(sandbox):
    """The daemon makes the token, readable by its user alone, and `token show` prints it."""
    listener = open_listener(sandbox)
    path = sandbox.state / "http-token"

    assert 0o600 == path.stat().st_mode & 0o777
    assert f"{listener.token}\n" == sandbox.handoff("token", "show").stdout
    assert 200 == listener.post(frame("ping")).status


def test_token_without_a_daemon(sandbox):
    """`token show` makes a missing token, and the daemon uses it."""
    shown = sandbox.handoff("token", "show").stdout.strip()
    listener = open_listener(sandbox)

    assert shown == listener.token == sandbox.handoff("token", "show").stdout.strip()
    assert 200 == listener.post(frame("ping"), Authorization=f"Bearer {shown}").status


@pytest.mark.quick
def test_rotation_holds_at_once(sandbox):
    """After a rotation the old token opens nothing and the new one does, without a restart."""
    listener = open_listener(sandbox, secret_path=True)
    old, pid = listener.token, sandbox.call("status")["pid"]
    new = sandbox.handoff("token", "rotate").stdout.strip()

    assert old != new == listener.token
    assert 401 == listener.post(frame("ping"), Authorization=f"Bearer {old}").status
    assert 404 == listener.post(frame("ping"), path=f"/mcp/{old}").status
    assert 200 == listener.post(frame("ping"), Authorization=f"Bearer {new}").status
    assert 200 == listener.post(frame("ping"), path=f"/mcp/{new}", Authorization=None).status
    assert pid == sandbox.call("status")["pid"]


def test_token_that_others_may_read(sandbox):
    """A token file that others may read opens nothing, is not shown, and causes a warning.

    The warning ends with a rotation.
    """
    listener = open_listener(sandbox)
    (sandbox.state / "http-token").chmod(0o644)
    refused = listener.post(frame("ping"))
    shown = sandbox.handoff("token", "show")

    assert 503 == refused.status
    assert "others may read" in warnings(sandbox)["http_token"]
    assert (1, "") == (shown.returncode, shown.stdout)
    assert "handoff token rotate" in shown.stderr
    assert "others may read" in sandbox.handoff("doctor").stdout
    assert 0 == sandbox.handoff("token", "rotate").returncode
    assert 200 == listener.post(frame("ping")).status
    assert {} == warnings(sandbox)


def test_token_others_may_read_at_the_start(sandbox):
    """At the start a token file that others may read is neither used nor overwritten."""
    sandbox.handoff("token", "show")
    path = sandbox.state / "http-token"
    path.chmod(0o640)
    kept = path.read_text()
    listener = open_listener(sandbox)

    assert 503 == listener.post(frame("ping")).status
    assert "http_token" in warnings(sandbox)
    assert (kept, 0o640) == (path.read_text(), path.stat().st_mode & 0o777)


def test_token_that_is_a_symlink(sandbox):
    """A symlink in the place of the token is not followed."""
    listener = open_listener(sandbox)
    path, elsewhere = sandbox.state / "http-token", sandbox.home / "elsewhere"
    elsewhere.write_text(path.read_text())
    elsewhere.chmod(0o600)
    path.unlink()
    path.symlink_to(elsewhere)

    assert 503 == listener.post(frame("ping")).status
    assert "symlink" in warnings(sandbox)["http_token"]


def test_secret_path_is_off_by_default(sandbox):
    """By default the token in the address opens nothing."""
    listener = open_listener(sandbox)

    assert 404 == listener.post(frame("ping"), path=f"/mcp/{listener.token}").status


def test_conversation_goes_on_after_a_restart(sandbox):
    """A client with a session id from before a restart goes on after it."""
    listener = open_listener(sandbox)

    async def hold() -> tuple[str, str]:
        headers = {"Authorization": f"Bearer {listener.token}", "Mcp-Session-Id": "of-long-ago"}
        async with (
            httpx2.AsyncClient(headers=headers) as client,
            Client(streamable_http_client(listener.url, http_client=client), mode="legacy") as mcp,
        ):
            made = await mcp.call_tool("create_handoff", {"title": "T", "content": "C"})
            ident = made.structured_content["handoff"]["id"]
            await asyncio.to_thread(sandbox.restart)
            await asyncio.to_thread(wait_for, lambda: sandbox.call("status")["http"])
            got = await mcp.call_tool("get_handoff", {"id": ident})
            return ident, got.structured_content["handoff"]["id"]

    made, got = asyncio.run(hold())

    assert made == got


def test_port_in_use(sandbox):
    """A port in use is reported with a remedy. The daemon goes on, and opens a free port later."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = configure(sandbox, port=taken.getsockname()[1])
        sandbox.transcripts.mkdir(parents=True)
        sandbox.start()
        wait_for(lambda: "in use" in warnings(sandbox).get("http_off", ""))

        assert "set [http] port" in warnings(sandbox)["http_off"]
        assert "in use" in sandbox.handoff("doctor").stdout
        assert sandbox.call("status")["http"] is None
    reload(sandbox, port=port)
    wait_for(lambda: sandbox.call("status")["http"])

    assert 200 == Visitor(sandbox, port).post(frame("ping")).status
    assert {} == warnings(sandbox)


def test_beyond_loopback_is_refused(sandbox):
    """A host that others could reach is refused, with the needed setting; the daemon lives."""
    port = configure(sandbox, host="0.0.0.0")
    sandbox.transcripts.mkdir(parents=True)
    sandbox.start()
    wait_for(lambda: "http_off" in warnings(sandbox))

    assert "behind_trusted_proxy = true" in warnings(sandbox)["http_off"]
    assert "behind_trusted_proxy = true" in sandbox.handoff("status").stdout
    with pytest.raises(ConnectionRefusedError):
        Visitor(sandbox, port).send("GET", "/health")


def test_missing_package(sandbox, tmp_path):
    """Without the package the listener stays closed and says how to get it; all the rest works."""
    (tmp_path / "hidden/mcp").mkdir(parents=True)
    gone = "raise ModuleNotFoundError(\"No module named 'mcp'\", name='mcp')\n"
    (tmp_path / "hidden/mcp/__init__.py").write_text(gone)
    (tmp_path / "hidden/mcp/server.py").write_text(gone)
    sandbox.environment["PYTHONPATH"] = str(tmp_path / "hidden")
    configure(sandbox)
    sandbox.transcripts.mkdir(parents=True)
    sandbox.start()
    wait_for(lambda: "http_off" in warnings(sandbox))

    assert "handoff setup --with http" in warnings(sandbox)["http_off"]
    assert "tools" in sandbox.request("tools/list")["result"]


def trusting(path: str) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=path)


@pytest.mark.quick
def test_tls(sandbox, tmp_path):
    """With a certificate the listener speaks TLS and nothing else, to clients that check it."""
    made, key = certificate(tmp_path)
    listener = open_listener(sandbox, tls_certificate=made, tls_key=key)
    listener.tls = trusting(made)
    answers = [listener.send("GET", "/health"), listener.post(frame("ping"))]
    page = listener.post(frame("ping"), Origin=f"http://localhost:{listener.port}")

    assert f"https://127.0.0.1:{listener.port}/mcp" == sandbox.call("status")["http"]
    assert [200, 200, 403] == [answer.status for answer in (*answers, page)]
    with listener.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n") as plain:
        assert not rest(plain).startswith(b"HTTP")


def test_certificate_is_read_anew(sandbox, tmp_path):
    """A reload takes a renewed certificate; a broken one is reported until it is replaced."""
    made, key = certificate(tmp_path)
    new, new_key = certificate(tmp_path, "new")
    listener = open_listener(sandbox, tls_certificate=made, tls_key=key)
    listener.tls = trusting(new)
    with pytest.raises(ssl.SSLError):
        listener.send("GET", "/health")
    reload(sandbox, port=listener.port, tls_certificate=made, tls_key=new_key)
    wait_for(lambda: "certificate" in warnings(sandbox).get("http_off", ""))
    reload(sandbox, port=listener.port, tls_certificate=new, tls_key=new_key)
    wait_for(lambda: sandbox.call("status")["http"])

    assert 200 == listener.send("GET", "/health").status


def test_tls_is_turned_on_while_it_runs(live, tmp_path):
    """A daemon that began without HTTP opens it with TLS when the configuration is read again."""
    made, key = certificate(tmp_path)
    port = reload(live, tls_certificate=made, tls_key=key)
    wait_for(lambda: live.call("status")["http"])

    assert 200 == Visitor(live, port, trusting(made)).send("GET", "/health").status


def test_ends_with_connections_open(sandbox):
    """Silent, half-sent and idle connections do not keep the daemon from a clean end."""
    listener = open_listener(sandbox)
    begun = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{listener.port}\r\nAuthorization: Bearer {listener.token}\r\n"
    half = f"{begun}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"
    held = [listener.raw(data) for data in (b"", begun.encode(), half.encode())]
    kept = listener.connect()
    kept.request("GET", "/health")
    kept.getresponse().read()

    assert 0 == sandbox.stop()
    assert '"stopped"' in sandbox.log.read_text()
    for connection in held:
        connection.close()
    kept.close()


def test_broken_configuration_leaves_the_listener(sandbox):
    """A reload of a broken configuration leaves the listener as it is."""
    listener = open_listener(sandbox)
    reload(sandbox, port="none")
    wait_for(lambda: "config_invalid" in warnings(sandbox))

    assert 200 == listener.post(frame("ping")).status


def test_settings_of_threads_hold_here_too(sandbox):
    """The configuration of threads also holds for calls over HTTP, after a reload, too."""
    listener = open_listener(sandbox)
    configure(sandbox, port=listener.port)
    path = sandbox.home / ".config/handoffd/config.toml"
    path.write_text(path.read_text() + "[threads]\nrefuse_secrets = true\n")
    sandbox.process.send_signal(signal.SIGHUP)
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7H8"
    given = {"name": "create_handoff", "arguments": {"title": "T", "content": secret}}

    wait_for(lambda: listener.ask("tools/call", given)["isError"])
    assert sandbox.call("status")["http"] == listener.url
