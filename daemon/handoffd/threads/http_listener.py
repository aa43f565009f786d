"""The HTTP listener: open while it is enabled and safe; otherwise it reports the reason.

The server behind it takes almost 30 MB, so it is loaded only when the listener opens.
"""

import asyncio
import contextlib
import errno
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from handoff.common.errors import HandoffError
from handoffd.config import HttpConfig
from handoffd.runtime import log
from handoffd.threads import http_token

# A failure may pass: a port becomes free, a package is installed, a certificate is renewed.
RETRY_SECONDS = 60.0
BACKLOG = 128

Tls = ssl.SSLContext | None
Opened = Callable[[HttpConfig, socket.socket, Tls], AbstractAsyncContextManager[None]]


@dataclass(slots=True)
class HttpListener:
    wanted: HttpConfig
    state_dir: str
    # Loads the server. That takes a second, so it is called in a thread.
    load: Callable[[], Opened]
    url: str = ""
    problem: str = ""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def want(self, settings: HttpConfig) -> None:
        """Take new settings. A certificate may have been renewed even if no setting changed."""
        if settings != self.wanted or settings.tls_certificate or self.problem:
            self.wanted = settings
            self._changed.set()

    async def run(self) -> None:
        """Keep the listener open or closed as the settings say, for ever."""
        while True:
            self._changed.clear()
            try:
                await self._serve()
            except HandoffError as problem:
                await self._stay_closed(f"{problem.title} {problem.hint}")
            except Exception as problem:  # noqa: BLE001  a library that fails must not end the daemon
                await self._stay_closed(f"It failed: {log.where(problem)}. See: handoff logs")

    def token_problem(self) -> str:
        """Return why the open listener refuses every request, or an empty text."""
        if not self.url:
            return ""
        try:
            http_token.read(self.state_dir)
        except HandoffError as problem:
            return f"{problem.title} {problem.hint}"
        except OSError as problem:
            return f"The token cannot be read: {problem.strerror}."
        return ""

    async def _serve(self) -> None:
        """Serve, or stay closed if HTTP is not enabled, until the settings change."""
        settings = self.wanted
        if not settings.enabled:
            self.problem = ""
            await self._changed.wait()
            return
        refuse_unsafe(settings)
        tls = load_tls(settings)
        with contextlib.closing(bind(settings)) as listener:
            opened = await self._load()
            # An unsafe token file is reported by token_problem(), and every request is refused.
            with contextlib.suppress(HandoffError):
                http_token.ensure(self.state_dir)
            async with opened(settings, listener, tls):
                self.url, self.problem = address(settings), ""
                log.get().info("http_open", url=self.url)
                try:
                    await self._changed.wait()
                finally:
                    self.url = ""
                    log.get().info("http_shut")

    async def _load(self) -> Opened:
        try:
            return await asyncio.to_thread(self.load)
        except ImportError as problem:
            what = f"no module {problem.name}" if problem.name else type(problem).__name__
            raise HandoffError(
                f"It needs the package mcp, 2.3 or later ({what}).",
                "Install it: handoff setup --with http",
            ) from None

    async def _stay_closed(self, problem: str) -> None:
        if problem != self.problem:
            log.get().warning("http_refused", why=problem)
        self.problem = problem
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RETRY_SECONDS):
                await self._changed.wait()


def refuse_unsafe(settings: HttpConfig) -> None:
    """Raise an error if the messages and the token would cross a network unencrypted."""
    if bool(settings.tls_certificate) != bool(settings.tls_key):
        raise HandoffError(
            "TLS needs a certificate and its key.", "Set [http] tls_certificate and tls_key."
        )
    if is_loopback(settings.host) or settings.tls_certificate or settings.behind_trusted_proxy:
        return
    raise HandoffError(
        f"[http] host {settings.host} would be open to others, unencrypted.",
        "Set tls_certificate and tls_key; or behind_trusted_proxy = true, if a proxy that only you "
        'control encrypts; or host = "127.0.0.1".',
    )


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    with contextlib.suppress(OSError):
        return socket.inet_pton(socket.AF_INET, host)[0] == 127  # noqa: PLR2004  127.0.0.0/8
    with contextlib.suppress(OSError):
        return socket.inet_pton(socket.AF_INET6, host) == bytes(15) + b"\1"
    return False


def load_tls(settings: HttpConfig) -> Tls:
    if not settings.tls_certificate:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate, key = map(os.path.expanduser, (settings.tls_certificate, settings.tls_key))
    try:
        # A key with a passphrase would ask for it on the terminal, and the daemon has none.
        context.load_cert_chain(certificate, key, password="")
    except OSError as problem:
        raise HandoffError(
            f"The certificate cannot be used: {problem.strerror or problem}.",
            "Check [http] tls_certificate and tls_key: PEM files of yours, without a passphrase.",
        ) from None
    return context


def bind(settings: HttpConfig) -> socket.socket:
    """Bind the port, before anything heavy is loaded for it."""
    host = "127.0.0.1" if settings.host == "localhost" else settings.host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends without delay only if the protocol is named; otherwise an answer took 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        # A port with lingering connections may be bound again; a port in use may not.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # A client that connects while the server is loaded waits, and is not refused.
        listener.bind((host, settings.port))
        listener.listen(BACKLOG)
    except OSError as problem:
        listener.close()
        raise _bind_error(settings, problem) from None
    return listener


def _bind_error(settings: HttpConfig, problem: OSError) -> HandoffError:
    place = f"{bracketed(settings.host)}:{settings.port}"
    if problem.errno == errno.EADDRINUSE:
        return HandoffError(
            f"{place} is in use by another program.", "End it, or set [http] port to another one."
        )
    return HandoffError(
        f"There is no listening at {place}: {problem.strerror or problem}.",
        "Set [http] host and port to what this machine has.",
    )


def address(settings: HttpConfig) -> str:
    scheme = "https" if settings.tls_certificate else "http"
    return f"{scheme}://{bracketed(settings.host)}:{settings.port}/mcp"


def bracketed(host: str) -> str:
    """Return a host as a URL writes it: an IPv6 address is in brackets."""
    return f"[{host}]" if ":" in host else host
