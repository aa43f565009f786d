"""The allowed addresses of the HTTP listener, and its token."""

import asyncio
import os
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from handoff.common.errors import HandoffError
from handoffd.config import HttpConfig
from handoffd.threads import http_token
from handoffd.threads.http_listener import (
    HttpListener,
    address,
    bind,
    is_loopback,
    load_tls,
    refuse_unsafe,
)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "localhost", "::1"])
def test_loopback(host):
    """A loopback address reaches only this machine and needs no further setting."""
    assert is_loopback(host)
    refuse_unsafe(HttpConfig(host=host))


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.4", "10.0.0.1", "example.org", "127.0.0.1.nip.io", "127.1"]
)
def test_beyond_loopback(host):
    """Any other host is refused with a remedy, unless TLS or a trusted proxy is configured."""
    assert not is_loopback(host)
    with pytest.raises(HandoffError, match="unencrypted") as refused:
        refuse_unsafe(HttpConfig(host=host))

    assert "behind_trusted_proxy = true" in refused.value.hint
    refuse_unsafe(HttpConfig(host=host, behind_trusted_proxy=True))
    refuse_unsafe(HttpConfig(host=host, tls_certificate="c", tls_key="k"))


@pytest.mark.parametrize("settings", [{"tls_certificate": "c"}, {"tls_key": "k"}])
def test_tls_needs_both(settings):
    """A certificate without its key is refused, and so is a key without its certificate."""
    with pytest.raises(HandoffError, match="needs a certificate and its key"):
        refuse_unsafe(HttpConfig(**settings))


def test_address():
    """The address is a URL that a client can use."""
    assert "http://127.0.0.1:8377/mcp" == address(HttpConfig())
    assert "https://[::1]:1/mcp" == address(
        HttpConfig(host="::1", port=1, tls_certificate="c", tls_key="k")
    )


def test_certificate_that_is_none(tmp_path):
    """An unusable certificate is an error that names the file to check."""
    (tmp_path / "c").write_text("none")
    for path in (tmp_path / "c", tmp_path / "missing"):
        with pytest.raises(HandoffError, match="certificate cannot be used") as refused:
            load_tls(HttpConfig(tls_certificate=str(path), tls_key=str(path)))

        assert "tls_key" in refused.value.hint


def test_bind_names_what_is_wrong():
    """A port in use and an address of another machine give different errors."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(HandoffError, match="in use"):
            bind(HttpConfig(port=port))
    with pytest.raises(HandoffError, match="no listening at"):
        bind(HttpConfig(host="192.0.2.1", port=port))


def problem_of(directory, failure: Exception) -> str:
    """Return the listener's problem if its server module cannot be loaded."""

    def load():
        raise failure

    async def look() -> str:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        listener = HttpListener(HttpConfig(enabled=True, port=port), str(directory), load)
        task = asyncio.create_task(listener.run())
        while not listener.problem:  # noqa: ASYNC110  polled, as by a status
            await asyncio.sleep(0.01)
        assert not task.done()
        task.cancel()
        return listener.problem

    return asyncio.run(look())


def test_a_failing_library_shuts_the_listener_only(tmp_path):
    """An exception of the server module becomes a problem in words, and the loop goes on."""
    assert problem_of(tmp_path, TypeError("SECRET")).startswith("It failed: TypeError at ")
    assert "SECRET" not in problem_of(tmp_path, TypeError("SECRET"))


def test_missing_package_has_a_remedy(tmp_path):
    """Without the package the problem names the command that installs it."""
    text = problem_of(tmp_path, ModuleNotFoundError(name="mcp"))

    assert "(no module mcp)" in text
    assert "handoff setup --with http" in text


def test_token_is_made_once(tmp_path):
    """Concurrent calls create one token, all get the same one, and only its owner can read it."""
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: http_token.ensure(str(tmp_path)), range(16)))

    assert {http_token.read(str(tmp_path))} == found
    assert 0o600 == (tmp_path / http_token.NAME).stat().st_mode & 0o777
    assert [http_token.NAME] == os.listdir(tmp_path)


def test_token_is_long_and_fits_an_address():
    """The token has 256 bits, in characters that need no quoting in a URL."""
    import secrets

    assert 43 == len(secrets.token_urlsafe(http_token._TOKEN_BYTES))


def test_rotated(tmp_path):
    """A rotated token differs from the old one and is the one that is read."""
    first = http_token.ensure(str(tmp_path))
    second = http_token.rotate(str(tmp_path))

    assert first != second == http_token.read(str(tmp_path))


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o602, 0o611])
def test_token_others_may_touch(tmp_path, mode):
    """A file that others may read, change or run is refused, and a rotation repairs it."""
    http_token.ensure(str(tmp_path))
    (tmp_path / http_token.NAME).chmod(mode)
    for look in (http_token.read, http_token.ensure):
        with pytest.raises(HandoffError, match="not yours alone") as refused:
            look(str(tmp_path))

        assert "handoff token rotate" in refused.value.hint
    assert http_token.rotate(str(tmp_path)) == http_token.read(str(tmp_path))


def test_token_of_somebody_else(tmp_path, monkeypatch):
    """A token file of another user is refused."""
    http_token.ensure(str(tmp_path))
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)

    with pytest.raises(HandoffError, match="not yours alone"):
        http_token.read(str(tmp_path))


def test_token_behind_a_symlink(tmp_path):
    """A symlink is neither read nor written through."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("x" * 43)
    elsewhere.chmod(0o600)
    (tmp_path / http_token.NAME).symlink_to(elsewhere)
    for look in (http_token.read, http_token.ensure, http_token.rotate):
        with pytest.raises(HandoffError, match="symlink"):
            look(str(tmp_path))

    assert "x" * 43 == elsewhere.read_text()


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 50, b"x" * 40 + b" y", b"a/" * 30])
def test_token_that_is_none(tmp_path, content):
    """A file with any other content is refused."""
    path = tmp_path / http_token.NAME
    path.write_bytes(content)
    path.chmod(0o600)

    with pytest.raises(HandoffError, match="holds no token"):
        http_token.read(str(tmp_path))
