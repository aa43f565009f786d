"""Private keys of several kinds, drawn from a seed, and the listings in which tools show them."""

import base64
import html
import json
import random
import re
import textwrap
import urllib.parse
from collections.abc import Callable, Iterator


def _armoured(what: str, content: bytes, width: int, headers: tuple[str, ...] = ()) -> list[str]:
    body = base64.b64encode(content).decode()
    lines = [body[at : at + width] for at in range(0, len(body), width)]
    return [f"-----BEGIN {what}-----", *headers, *lines, f"-----END {what}-----"]


def rsa(chance: random.Random) -> list[str]:
    head = bytes.fromhex("308204a302010002820101009f")
    return _armoured("RSA PRIVATE KEY", head + chance.randbytes(1178), 64)


def pkcs8(chance: random.Random) -> list[str]:
    head = bytes.fromhex("308204bd020100300d06092a864886f70d0101010500048204a7")
    return _armoured("PRIVATE KEY", head + chance.randbytes(1191), 64)


def encrypted(chance: random.Random) -> list[str]:
    headers = ("Proc-Type: 4,ENCRYPTED", f"DEK-Info: AES-128-CBC,{chance.randbytes(16).hex()}", "")
    return _armoured("RSA PRIVATE KEY", chance.randbytes(1200), 64, headers)


def elliptic(chance: random.Random) -> list[str]:
    return _armoured("EC PRIVATE KEY", bytes.fromhex("30770201010420") + chance.randbytes(114), 64)


def ed25519(chance: random.Random) -> list[str]:
    kind = b"\0\0\0\x0bssh-ed25519\0\0\0\x20"
    head = b"openssh-key-v1\0\0\0\0\x04none\0\0\0\x04none\0\0\0\0\0\0\0\x01\0\0\0\x33" + kind
    content = head + chance.randbytes(40) + kind + chance.randbytes(110)
    return _armoured("OPENSSH PRIVATE KEY", content, 70)


def pgp(chance: random.Random) -> list[str]:
    content = b"\x95\x01\xd8\x04" + chance.randbytes(900)
    return _armoured("PGP PRIVATE KEY BLOCK", content, 64, ("Version: GnuPG v2", ""))


def putty(chance: random.Random) -> list[str]:
    public = _armoured("", b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + chance.randbytes(32), 64)[1:-1]
    private = _armoured("", chance.randbytes(590), 64)[1:-1]
    return [
        "PuTTY-User-Key-File-3: ssh-ed25519", "Encryption: none", "Comment: kim@box",
        f"Public-Lines: {len(public)}", *public, f"Private-Lines: {len(private)}", *private,
        f"Private-MAC: {chance.randbytes(32).hex()}",
    ]  # fmt: skip


KEYS = {key.__name__: key for key in (rsa, ed25519, pkcs8, encrypted, elliptic, pgp, putty)}


def certificate(chance: random.Random) -> list[str]:
    return _armoured("CERTIFICATE", bytes.fromhex("308202f9308201e1") + chance.randbytes(700), 64)


def _windows(text: str) -> Iterator[str]:
    return (text[at : at + 16] for at in range(len(text) - 15))


def parts(key: list[str]) -> set[str]:
    """Return each part of 16 characters of a key's body."""
    private = [at for at, line in enumerate(key) if line.startswith("Private-Lines")]
    lines = [line for line in key[(private or [0])[0] :] if len(line) >= 40 and " " not in line]
    return {part for line in lines for part in _windows(line)}


def parts_left(secret: set[str], text: str) -> list[str]:
    """Return those parts of a key that a text holds."""
    runs = re.findall(r"[A-Za-z0-9+/=]{16,}", text)
    return [part for run in runs for part in _windows(run) if part in secret]


def _each(form: str) -> Callable[[list[str]], str]:
    """Return a listing that writes each line in one form, with its number and a second."""
    return lambda key: "\n".join(
        form.format(line, n=number, s=number % 60) for number, line in enumerate(key, 1)
    )


def _hex_dump(key: list[str]) -> str:
    data = ("\n".join(key) + "\n").encode()
    return "\n".join(
        f"{at:08x}: {data[at : at + 16].hex(' ', 2):39}  "
        + "".join(chr(c) if c >= 32 else "." for c in data[at : at + 16])
        for at in range(0, len(data), 16)
    )


def _hex_words(key: list[str]) -> str:
    data = ("\n".join(key) + "\n").encode()
    return "\n".join(
        f"{at:08x}  {data[at : at + 16].hex(' '):48} |"
        + "".join(chr(c) if c >= 32 else "." for c in data[at : at + 16]) + "|"
        for at in range(0, len(data), 16)
    )  # fmt: skip


def _beside(key: list[str]) -> str:
    return "\n".join(f"{line[:60]:62}|\t{line[:60]}" for line in key)


def _ripgrep_json(key: list[str]) -> str:
    return "\n".join(
        json.dumps({"type": "match", "data": {
            "path": {"text": "deploy/key.pem"}, "lines": {"text": f"{line}\n"}, "line_number": number,
            "absolute_offset": 65 * number, "submatches": [{"match": {"text": line}, "start": 0}],
        }})
        for number, line in enumerate(key, 1)
    )  # fmt: skip


def _wrapped(prefix: str) -> Callable[[list[str]], str]:
    return lambda key: "\n".join(
        part for line in key for part in textwrap.wrap(prefix + line, 80, break_on_hyphens=False)
    )


def _encoded(key: list[str]) -> str:
    return base64.b64encode("\n".join(key).encode()).decode()


def _nested(depth: int) -> Callable[[list[str]], str]:
    def nested(key: list[str]) -> str:
        text = "\n".join(key)
        for _ in range(depth):
            text = json.dumps({"key": text})
        return text

    return nested


def _joined(joint: str, form: str = "{}") -> Callable[[list[str]], str]:
    return lambda key: form.format(joint.join(key))


def _cut(first: int | None, last: int | None, form: str) -> Callable[[list[str]], str]:
    return lambda key: _each(form)(key[first:last])


STAMP = "2026-03-04T12:00:{s:02}.123456Z"
LISTINGS: dict[str, Callable[[list[str]], str]] = {
    "plain": _each("{}"),
    "CRLF": _joined("\r\n"),
    "indented": _each("        {}"),
    "tabs": _each("\t\t{}"),
    "Read with an arrow": _each("{n:6}→{}"),
    "Read with a tab": _each("{n}\t{}"),
    "cat -n": _each("{n:6}\t{}"),
    "cat -A": _each("{}$"),
    "cat -A with CRLF": _each("{}^M$"),
    "nl": _each("{n:6}  {}"),
    "sed =": _each("{n}\n{}"),
    "double spaced": _each("{}\n"),
    "less -N": _each("{n:7} {}"),
    "vim": _each("~ {n:3} {}"),
    "bat": _each("{n:4} │ {}"),
    "diff -": _each("-{}"),
    "diff +": _each("+{}"),
    "diff context": _each(" {}"),
    "diff <": _each("< {}"),
    "diff >": _each("> {}"),
    "diff -y": _beside,
    "unified diff": _joined(
        "\n+", "diff --git a/k b/k\nindex 0000000..3f2a1bc\n--- /dev/null\n+++ b/k\n@@ -0,0 +1,27 @@\n+{}"
    ),
    "git log -p": _each("    -{}"),
    "git blame": _each("^3f2a1bc (Kim Doe 2026-03-04 12:00:00 +0100 {n:2}) {}"),
    "git blame -l": _each("3f2a1bc9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f4a3 k.pem (Kim 2026-03-04 {n}) {}"),
    "git grep": _each("HEAD:deploy/key.pem:{n}:{}"),
    "git diff --word-diff": _each("{{+{}+}}"),
    "git diff --color": _each("\x1b[32m+\x1b[m\x1b[32m{}\x1b[m"),
    "grep -n": _each("{n}:{}"),
    "grep -rn": _each("deploy/key.pem:{n}:{}"),
    "grep -A": _each("deploy/key.pem-{n}-{}"),
    "grep --color": _each("\x1b[35mk.pem\x1b[m\x1b[36m:\x1b[m\x1b[32m{n}\x1b[m:\x1b[01;31m\x1b[K{}\x1b[m\x1b[K"),
    "colours in a line": lambda key: "\n".join(
        "".join(f"\x1b[32m{line[at : at + 8]}\x1b[0m" for at in range(0, len(line), 8)) for line in key
    ),
    "HTML spans": lambda key: "\n".join(
        "".join(f'<span class="s1">{line[at : at + 9]}</span>' for at in range(0, len(line), 9)) for line in key
    ),
    "UTF-16": lambda key: "\0".join("\n".join(key)),
    "every character escaped": lambda key: "".join(f"\\u{ord(char):04x}" for char in "\n".join(key)),
    "ripgrep --json": _ripgrep_json,
    "quoted": _each("> {}"),
    "quoted twice": _each("> > {}"),
    "quoted tightly": _each(">>> {}"),
    "comment #": _each("# {}"),
    "comment //": _each("// {}"),
    "comment --": _each("-- {}"),
    "comment ;": _each("; {}"),
    "comment *": _each(" * {}"),
    "comment <!--": _each("<!-- {} -->"),
    "comment REM": _each("REM {}"),
    "comment %": _each("% {}"),
    "log": _each("2026-03-04 12:00:{s:02},123 INFO  deploy.keys: {}"),
    "log with a logger": _each("[2026-03-04 12:00:{s:02}] [ERROR] [worker-3/DeployKeys2] - {}"),
    "docker logs -t": _each(STAMP + " {}"),
    "docker compose logs": _each("api-1       | {}"),
    "docker json log": _each('{{"log":"{}\\n","stream":"stdout","time":"' + STAMP + '"}}'),
    "kubectl logs --prefix": _each("[pod/api-7d9f8b6c5d-x2x9z/Api2] {}"),
    "kubernetes log": _each(STAMP + " stdout F {}"),
    "journalctl": _each("Mar 04 12:00:{s:02} box deploy[4711]: {}"),
    "journalctl -o json": _each('{{"_BOOT_ID":"3f2a1bc9d8e7f6a5b4c3d2e1f0a9b8c7","MESSAGE":"{}","PRIORITY":"6"}}'),
    "CI step": _each("deploy\tShow key\t" + STAMP + " {}"),
    "traceback": _each("E       AssertionError: {}"),
    "pytest": _each("E         + {}"),
    "table |": _each("| {}"),
    "markdown table": _each("| {n} | {} |"),
    "markdown table, one row": _joined(" ", "| key | {} |"),
    "psql": _each(" {n:4} | {} +"),
    "<br>": _joined("<br>"),
    "<br/>": _joined("<br/>\n"),
    "&#10;": _joined("&#10;"),
    "&#xA;": _joined("&#xA;"),
    "XML": _joined("\n", "<key><![CDATA[{}]]></key>"),
    "HTML": lambda key: "<pre>" + html.escape("\n".join(key)) + "</pre>",
    "HTML rows": _each('<tr><td class="line">{n}</td><td>{}</td></tr>'),
    "URL": lambda key: "k=" + urllib.parse.quote("\n".join(key), safe=""),
    "JSON": _nested(1),
    "JSON in JSON": _nested(2),
    "JSON in JSON in JSON": _nested(3),
    "JSON with escaped slashes": lambda key: _nested(1)(key).replace("/", "\\/"),
    "JSON lines": _each('    "{}",'),
    "repr": lambda key: repr("\n".join(key)),
    "YAML |": lambda key: "key: |\n" + _each("  {}")(key),
    "YAML flow": _joined("\\n", 'key: "{}"'),
    "YAML list": _each("  - {}"),
    "TOML": _joined("\n", 'key = """\n{}\n"""'),
    ".env": _joined("\\n", 'PRIVATE_KEY="{}\\n"'),
    ".env without quotes": _joined("\\n", "PRIVATE_KEY={}"),
    "heredoc": _joined("\n", "cat > k.pem <<'EOF'\n{}\nEOF"),
    "echo": _each("echo '{}' >> k.pem"),
    "printf": _joined("\\n", "printf '%s' '{}' > k.pem"),
    "set -x": _each("+ echo {}"),
    "JS template": _joined("\n", "const key = `{}`;"),
    "JS array": _each("  '{}',"),
    "string +": _each('    "{}\\n" +'),
    "string . ": _each("    '{}' . PHP_EOL ."),
    "C string": _each('"{}\\n"'),
    "C string with a backslash": _each("{}\\n\\"),
    "Python bytes": _each("    b'{}\\n'"),
    "CSV": _joined("\n", '7,"{}",x'),
    "one line": _joined(" "),
    "one line, no spaces": _joined(""),
    "base64": _encoded,
    "base64, behind one byte": lambda key: base64.b64encode(b"\n" + "\n".join(key).encode()).decode(),
    "base64, behind two bytes": lambda key: base64.b64encode(b"\n\n" + "\n".join(key).encode()).decode(),
    "base64 in lines": lambda key: "\n".join(textwrap.wrap(_encoded(key), 76)),
    "xxd": _hex_dump,
    "hexdump -C": _hex_words,
    "xxd -p": lambda key: "\n".join(textwrap.wrap("\n".join(key).encode().hex(), 60)),
    "wrapped": _wrapped("12:00:01 deploy-worker[4711]: "),
    "wrapped, numbered": _wrapped("      deploy/keys/production.pem:7: "),
    "box": _each("│ {} │"),
    "only its first lines": _cut(None, 12, "{n:6}\t{}"),
    "only its last lines": _cut(-4, None, "{n:6}\t{}"),
    "lines from its middle": _cut(2, 5, "{n:6}→{}"),
    "lines from its middle, diff -": _cut(4, 7, "-{}"),
    "lines from its middle, grep -A": _cut(4, 7, "deploy/key.pem-{n}-{}"),
    "lines from its middle, log": _cut(4, 7, "2026-03-04 12:00:{s:02},123 INFO deploy: {}"),
    "no BEGIN": _cut(1, None, "{n:6}→{}"),
}  # fmt: skip


def listings(key: list[str]) -> Iterator[tuple[str, str]]:
    for name, form in LISTINGS.items():
        yield name, form(key)
