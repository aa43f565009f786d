"""A desktop notification: the command that is run, and that a failure or hang does no harm."""

import os
import sys
import time

import pytest

from handoffd.links import desktop


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A directory that is all of PATH, with programs that record their arguments, and a desktop."""
    for name in ("notify-send", "osascript"):
        program = tmp_path / name
        program.write_text(
            f"#!/bin/sh\nfor word; do printf '%s\\0' \"$word\" >> {tmp_path}/words; done\n"
        )
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(sys, "platform", "linux")
    return tmp_path


def words(programs):
    told = programs / "words"
    return told.read_text().split("\0")[:-1] if told.exists() else []


def test_linux(programs):
    """On Linux notify-send gets the title and the text, with markup made harmless."""
    desktop.notify("handoff", 'a <img src="x"> & b')

    expected = ["--app-name=handoffd", "--", "handoff", 'a &lt;img src="x"&gt; &amp; b']
    assert expected == words(programs)


def test_macos(programs, monkeypatch):
    """On macOS the texts are arguments of a constant script."""
    monkeypatch.setattr(sys, "platform", "darwin")
    desktop.notify("handoff", '" & (do shell script "id") & "')

    *script, title, text = words(programs)
    assert ["handoff", '" & (do shell script "id") & "'] == [title, text]
    assert ["-e", "-e", "-e"] == script[::2]
    assert list(desktop._SCRIPT) == script[1::2]


def test_no_desktop(programs, monkeypatch):
    """Without a display or a session bus nothing is run."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(desktop.os.path, "exists", lambda path: False)
    desktop.notify("a", "b")

    assert [] == words(programs)


def test_bus_of_a_service(programs, monkeypatch):
    """A service without desktop variables finds the session bus at its default path."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(desktop.os.path, "exists", lambda path: path.startswith("/run/user/"))
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/systemd/notify")
    desktop.notify("a", "b")

    assert ["a", "b"] == words(programs)[-2:]
    given = desktop._environment()
    assert f"unix:path=/run/user/{os.getuid()}/bus" == given["DBUS_SESSION_BUS_ADDRESS"]
    assert "NOTIFY_SOCKET" not in given


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("a b", "a\n\tb\x1b\x00\u202e"),
        ("help", "--help"),
        ("handoffd", "--\n"),
        ("handoffd", ""),
        ("x" * 399 + "…", "x" * 5000),
    ],
)
def test_texts(programs, expected, text):
    """A text is one bounded line that no program takes for an option."""
    desktop.notify("t", text)

    assert expected == words(programs)[-1]


def test_no_program(programs):
    """If the program is missing, nothing happens."""
    (programs / "notify-send").unlink()
    desktop.notify("a", "b")

    assert [] == words(programs)


def test_failing_program(programs):
    """A failing program is ignored."""
    (programs / "notify-send").write_text("#!/bin/sh\nexit 1\n")
    desktop.notify("a", "b")


def test_hanging_program(programs, monkeypatch):
    """A hanging program is ended together with its children."""
    monkeypatch.setattr(desktop, "TIMEOUT_SECONDS", 0.1)
    trace = programs / "late"
    (programs / "notify-send").write_text(
        f"#!/bin/sh\n(/bin/sleep 1; : > {trace}) &\n/bin/sleep 60\n"
    )
    started = time.monotonic()
    desktop.notify("a", "b")

    assert time.monotonic() - started < 0.9
    time.sleep(max(0.0, started + 1.3 - time.monotonic()))
    assert not trace.exists()
