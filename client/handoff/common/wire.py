"""The frames that both sides exchange: JSON-RPC 2.0, one object per line, UTF-8.

docs/protocol.md describes the methods. The hot path loads this module, so it imports C code only.
"""

import _json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PROTOCOL = 1
REQUEST_MAX_BYTES = 1 << 20
# The maximum size of the text of one entry in a thread.
ENTRY_MAX_BYTES = 256 << 10

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
COMMAND_FAILED = -32000
BUSY = -32001


class _ScannerContext:
    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    memo: dict[str, str] = {}  # noqa: RUF012  the C scanner's own cache


class _StrictContext(_ScannerContext):
    strict = True


_scan: "Any" = _json.make_scanner(_ScannerContext())  # type: ignore[arg-type]  # it reads no more
_scan_strictly: "Any" = _json.make_scanner(_StrictContext())  # type: ignore[arg-type]


def decode(line: bytes) -> "Any":
    """Return the value of a frame from our own daemon, without the cost of importing json."""
    return _scan(line.decode("utf-8", "replace"), 0)[0]


def decode_strictly(line: bytes) -> "Any":
    """Return the value of a frame from any sender, parsed as strictly as the daemon parses it.

    A frame that is not JSON, or more than one JSON value, raises a ValueError.
    """
    text = line.decode("utf-8", "surrogatepass")
    try:
        value, end = _scan_strictly(text, 0)
    except (StopIteration, SystemError):  # the scanner needs the package json to name the error
        raise ValueError("no JSON") from None
    if end != len(text):
        raise ValueError("more than JSON")
    return value


def encode(value: "Any") -> str:
    """Return plain values as compact JSON."""
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, str):
        return _json.encode_basestring_ascii(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{encode(k)}:{encode(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(encode, value)) + "]"
    return repr(value)


def request(method: str, params: "dict[str, Any]") -> bytes:
    frame = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return encode(frame).encode() + b"\n"
