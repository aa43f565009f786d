"""The token of the HTTP listener is compared in constant time, for every presented token."""

import statistics
import time

import pytest

from handoffd.api import http_guard
from handoffd.api.http_guard import HttpRequest, make_guard
from handoffd.config import HttpConfig

TOKEN = "k3V9sTq0pXw7Zr2Lm8Nb5Yc1Hd6Jf4Gu"
PRESENTED = {
    "right": TOKEN,
    "first wrong": "x" + TOKEN[1:],
    "last wrong": TOKEN[:-1] + "x",
    "none": "",
    "short": TOKEN[:-1],
    "long": TOKEN * 100,
    "not ascii": "ü" + TOKEN[1:],
    "other digits": "\u00b2" * len(TOKEN),
}


def knock(given: str, *, secret_path: bool) -> bool:
    """Return True if a request with this token, in the header or in the address, is admitted."""
    guard = make_guard(HttpConfig(secret_path=secret_path), tls=False, read_token=lambda: TOKEN)
    headers = [(b"host", b"127.0.0.1:8377"), (b"content-type", b"application/json")]
    path = f"/mcp/{given}" if secret_path else "/mcp"
    if not secret_path:
        headers.append((b"authorization", b"Bearer " + given.encode("latin-1", "replace")))
    return guard.answer(HttpRequest("POST", path, tuple(headers))) is None


@pytest.mark.parametrize("secret_path", [False, True], ids=["header", "address"])
def test_token_is_compared_in_constant_time(monkeypatch, secret_path, record_property):
    """Every presented token is compared once, as bytes, by a function of constant time."""
    compared: list[tuple[bytes, bytes]] = []
    compare = http_guard.compare_digest

    def noted(given: bytes, token: bytes) -> bool:
        compared.append((given, token))
        return compare(given, token)

    monkeypatch.setattr(http_guard, "compare_digest", noted)
    let_in = {name for name, given in PRESENTED.items() if knock(given, secret_path=secret_path)}

    assert {"right"} == let_in
    assert len(PRESENTED) == len(compared)
    assert {TOKEN.encode()} == {token for _, token in compared}
    assert {bytes} == {type(given) for given, _ in compared}

    monkeypatch.undo()
    first, last = (timed(name, secret_path) for name in ("first wrong", "last wrong"))
    record_property("figure", f"first or last byte wrong: median {first:.1f} or {last:.1f} us")


def timed(name: str, secret_path: bool) -> float:
    """Return the microseconds of a refusal, for the report only, because machines are busy."""
    times = []
    for _ in range(2000):
        began = time.perf_counter()
        knock(PRESENTED[name], secret_path=secret_path)
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6
