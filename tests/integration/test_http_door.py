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
from http_door import (
    Visitor,
    certificate,
    configure,
    frame,
    open_door,
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


def test_loaded_only_when_wanted(house):
    """The daemon imports neither the SDK nor uvicorn until HTTP is enabled."""
    house.environment["PYTHONPROFILEIMPORTTIME"] = "1"
    house.transcripts.mkdir(parents=True)
    house.start()
    wait_for(house.settled)

    def imported() -> set[str]:
        lines = house.log.read_text().splitlines()
        names = {line.rpartition("|")[2].strip() for line in lines if "import time:" in line}
        return names & {
            "handoffd.app",
            "mcp_types",
            "mcp.server.lowlevel.server",
            "uvicorn",
        }

    before = imported()
    reload(house)
    wait_for(lambda: house.call("status")["http"])

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
    door = Visitor(live, reload(live))
    wait_for(lambda: live.call("status")["http"] == door.url)
    first = door.post(frame("ping")).status
    moved = Visitor(live, reload(live))
    wait_for(lambda: live.call("status")["http"] == moved.url)
    second = moved.post(frame("ping")).status
    with pytest.raises(ConnectionRefusedError):
        door.post(frame("ping"))
    reload(live, enabled=False)
    wait_for(lambda: live.call("status")["http"] is None)
    with pytest.raises(ConnectionRefusedError):
        moved.post(frame("ping"))

    assert [200, 200] == [first, second]
    assert (pid, {}) == (live.call("status")["pid"], warnings(live))


def test_status_and_doctor_know_it(house):
    """Status names the address, and not the token; doctor finds nothing wrong."""
    door = open_door(house, secret_path=True)
    shown = house.handoff("status").stdout

    assert f"on http://127.0.0.1:{door.port}/mcp\n" in shown
    assert door.token not in shown
    wait_for(house.settled)
    assert 0 == house.handoff("doctor").returncode


@pytest.mark.quick
def test_token_is_made_at_the_first_start(house):
    """The daemon makes the token, readable by its user alone, and `token show` prints it."""
    door = open_door(house)
    path = house.state / "http-token"

    assert 0o600 == path.stat().st_mode & 0o777
    assert f"{door.token}\n" == house.handoff("token", "show").stdout
    assert 200 == door.post(frame("ping")).status


def test_token_without_a_daemon(house):
    """`token show` makes a missing token, and the daemon uses it."""
    shown = house.handoff("token", "show").stdout.strip()
    door = open_door(house)

    assert shown == door.token == house.handoff("token", "show").stdout.strip()
    assert 200 == door.post(frame("ping"), Authorization=f"Bearer {shown}").status


@pytest.mark.quick
def test_rotation_holds_at_once(house):
    """After a rotation the old token opens nothing and the new one does, without a restart."""
    door = open_door(house, secret_path=True)
    old, pid = door.token, house.call("status")["pid"]
    new = house.handoff("token", "rotate").stdout.strip()

    assert old != new == door.token
    assert 401 == door.post(frame("ping"), Authorization=f"Bearer {old}").status
    assert 404 == door.post(frame("ping"), path=f"/mcp/{old}").status
    assert 200 == door.post(frame("ping"), Authorization=f"Bearer {new}").status
    assert 200 == door.post(frame("ping"), path=f"/mcp/{new}", Authorization=None).status
    assert pid == house.call("status")["pid"]


def test_token_that_others_may_read(house):
    """A token file that others may read opens nothing, is not shown, and causes a warning.

    The warning ends with a rotation.
    """
    door = open_door(house)
    (house.state / "http-token").chmod(0o644)
    refused = door.post(frame("ping"))
    shown = house.handoff("token", "show")

    assert 503 == refused.status
    assert "others may read" in warnings(house)["http_token"]
    assert (1, "") == (shown.returncode, shown.stdout)
    assert "handoff token rotate" in shown.stderr
    assert "others may read" in house.handoff("doctor").stdout
    assert 0 == house.handoff("token", "rotate").returncode
    assert 200 == door.post(frame("ping")).status
    assert {} == warnings(house)


def test_token_others_may_read_at_the_start(house):
    """At the start a token file that others may read is neither used nor overwritten."""
    house.handoff("token", "show")
    path = house.state / "http-token"
    path.chmod(0o640)
    kept = path.read_text()
    door = open_door(house)

    assert 503 == door.post(frame("ping")).status
    assert "http_token" in warnings(house)
    assert (kept, 0o640) == (path.read_text(), path.stat().st_mode & 0o777)


def test_token_that_is_a_symlink(house):
    """A symlink in the place of the token is not followed."""
    door = open_door(house)
    path, elsewhere = house.state / "http-token", house.home / "elsewhere"
    elsewhere.write_text(path.read_text())
    elsewhere.chmod(0o600)
    path.unlink()
    path.symlink_to(elsewhere)

    assert 503 == door.post(frame("ping")).status
    assert "symlink" in warnings(house)["http_token"]


def test_secret_path_is_off_by_default(house):
    """By default the token in the address opens nothing."""
    door = open_door(house)

    assert 404 == door.post(frame("ping"), path=f"/mcp/{door.token}").status


def test_conversation_goes_on_after_a_restart(house):
    """A client with a session id from before a restart goes on after it."""
    door = open_door(house)

    async def hold() -> tuple[str, str]:
        headers = {"Authorization": f"Bearer {door.token}", "Mcp-Session-Id": "of-long-ago"}
        async with (
            httpx2.AsyncClient(headers=headers) as client,
            Client(streamable_http_client(door.url, http_client=client), mode="legacy") as mcp,
        ):
            made = await mcp.call_tool("create_handoff", {"title": "T", "content": "C"})
            ident = made.structured_content["handoff"]["id"]
            await asyncio.to_thread(house.restart)
            await asyncio.to_thread(wait_for, lambda: house.call("status")["http"])
            got = await mcp.call_tool("get_handoff", {"id": ident})
            return ident, got.structured_content["handoff"]["id"]

    made, got = asyncio.run(hold())

    assert made == got


def test_port_in_use(house):
    """A port in use is reported with a remedy. The daemon goes on, and opens a free port later."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = configure(house, port=taken.getsockname()[1])
        house.transcripts.mkdir(parents=True)
        house.start()
        wait_for(lambda: "in use" in warnings(house).get("http_off", ""))

        assert "set [http] port" in warnings(house)["http_off"]
        assert "in use" in house.handoff("doctor").stdout
        assert house.call("status")["http"] is None
    reload(house, port=port)
    wait_for(lambda: house.call("status")["http"])

    assert 200 == Visitor(house, port).post(frame("ping")).status
    assert {} == warnings(house)


def test_beyond_loopback_is_refused(house):
    """A host that others could reach is refused, with the needed setting; the daemon lives."""
    port = configure(house, host="0.0.0.0")
    house.transcripts.mkdir(parents=True)
    house.start()
    wait_for(lambda: "http_off" in warnings(house))

    assert "behind_trusted_proxy = true" in warnings(house)["http_off"]
    assert "behind_trusted_proxy = true" in house.handoff("status").stdout
    with pytest.raises(ConnectionRefusedError):
        Visitor(house, port).send("GET", "/health")


def test_missing_package(house, tmp_path):
    """Without the package the listener stays closed and says how to get it; all the rest works."""
    (tmp_path / "hidden/mcp").mkdir(parents=True)
    gone = "raise ModuleNotFoundError(\"No module named 'mcp'\", name='mcp')\n"
    (tmp_path / "hidden/mcp/__init__.py").write_text(gone)
    (tmp_path / "hidden/mcp/server.py").write_text(gone)
    house.environment["PYTHONPATH"] = str(tmp_path / "hidden")
    configure(house)
    house.transcripts.mkdir(parents=True)
    house.start()
    wait_for(lambda: "http_off" in warnings(house))

    assert "-m pip install 'mcp>=2.3,<3'" in warnings(house)["http_off"]
    assert "tools" in house.request("tools/list")["result"]


def trusting(path: str) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=path)


@pytest.mark.quick
def test_tls(house, tmp_path):
    """With a certificate the listener speaks TLS and nothing else, to clients that check it."""
    made, key = certificate(tmp_path)
    door = open_door(house, tls_certificate=made, tls_key=key)
    door.tls = trusting(made)
    answers = [door.send("GET", "/health"), door.post(frame("ping"))]
    page = door.post(frame("ping"), Origin=f"http://localhost:{door.port}")

    assert f"https://127.0.0.1:{door.port}/mcp" == house.call("status")["http"]
    assert [200, 200, 403] == [answer.status for answer in (*answers, page)]
    with door.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n") as plain:
        assert not rest(plain).startswith(b"HTTP")


def test_certificate_is_read_anew(house, tmp_path):
    """A reload takes a renewed certificate; a broken one is reported until it is replaced."""
    made, key = certificate(tmp_path)
    new, new_key = certificate(tmp_path, "new")
    door = open_door(house, tls_certificate=made, tls_key=key)
    door.tls = trusting(new)
    with pytest.raises(ssl.SSLError):
        door.send("GET", "/health")
    reload(house, port=door.port, tls_certificate=made, tls_key=new_key)
    wait_for(lambda: "certificate" in warnings(house).get("http_off", ""))
    reload(house, port=door.port, tls_certificate=new, tls_key=new_key)
    wait_for(lambda: house.call("status")["http"])

    assert 200 == door.send("GET", "/health").status


def test_tls_is_turned_on_while_it_runs(live, tmp_path):
    """A daemon that began without HTTP opens it with TLS when the configuration is read again."""
    made, key = certificate(tmp_path)
    port = reload(live, tls_certificate=made, tls_key=key)
    wait_for(lambda: live.call("status")["http"])

    assert 200 == Visitor(live, port, trusting(made)).send("GET", "/health").status


def test_ends_with_connections_open(house):
    """Silent, half-sent and idle connections do not keep the daemon from a clean end."""
    door = open_door(house)
    begun = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{door.port}\r\nAuthorization: Bearer {door.token}\r\n"
    half = f"{begun}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"
    held = [door.raw(data) for data in (b"", begun.encode(), half.encode())]
    kept = door.connect()
    kept.request("GET", "/health")
    kept.getresponse().read()

    assert 0 == house.stop()
    assert '"stopped"' in house.log.read_text()
    for connection in held:
        connection.close()
    kept.close()


def test_broken_configuration_leaves_the_door(house):
    """A reload of a broken configuration leaves the listener as it is."""
    door = open_door(house)
    reload(house, port="none")
    wait_for(lambda: "config_invalid" in warnings(house))

    assert 200 == door.post(frame("ping")).status


def test_settings_of_threads_hold_here_too(house):
    """The configuration of threads also holds for calls over HTTP, after a reload, too."""
    door = open_door(house)
    configure(house, port=door.port)
    path = house.home / ".config/handoffd/config.toml"
    path.write_text(path.read_text() + "[threads]\nrefuse_secrets = true\n")
    house.process.send_signal(signal.SIGHUP)
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7H8"
    given = {"name": "create_handoff", "arguments": {"title": "T", "content": secret}}

    wait_for(lambda: door.ask("tools/call", given)["isError"])
    assert house.call("status")["http"] == door.url
