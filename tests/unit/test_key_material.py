"""Private keys without PEM marks are masked; public and similar data stays."""

import hashlib
import json
import random
import textwrap
from base64 import b64encode, urlsafe_b64encode

import pytest

from handoffd.redaction.redact import may_hold_secret, redact
from listings import KEYS, certificate

MASK = "[redacted:private-key]"
CHANCE = random.Random(19)
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
MEMBERS = {"n": 256, "d": 256, "p": 128, "q": 128, "dp": 128, "dq": 128, "qi": 128}


def url64(size):
    return urlsafe_b64encode(CHANCE.randbytes(size)).decode().rstrip("=")


def colons(size):
    lines = textwrap.wrap(CHANCE.randbytes(size).hex(":"), 45)
    return "".join(f"\n    {line}" for line in lines)


JWKS = {
    "RSA": {"kty": "RSA", "e": "AQAB", **{name: url64(size) for name, size in MEMBERS.items()}},
    "kty at the end": {"d": url64(32), "x": url64(32), "crv": "Ed25519", "kty": "OKP"},
    "EC": {"kty": "EC", "crv": "P-256", "x": url64(32), "y": url64(32), "d": url64(32)},
    "oct": {"kty": "oct", "alg": "HS256", "k": url64(32)},
}
WRITTEN = {
    "one line": json.dumps,
    "pretty": lambda jwk: json.dumps(jwk, indent=2),
    "in JSON": lambda jwk: json.dumps({"key": json.dumps(jwk), "keys": []}),
    "numbered": lambda jwk: "\n".join(
        f"{n:6}→{line}" for n, line in enumerate(json.dumps(jwk, indent=2).splitlines(), 1)
    ),
    "JavaScript": lambda jwk: "{" + ", ".join(f"{k}: '{v}'" for k, v in jwk.items()) + "}",
}


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
@pytest.mark.parametrize("jwk", JWKS.values(), ids=JWKS)
def test_private_members_of_a_jwk_are_masked(jwk, written):
    """Each private member is masked, in any position of "kty", and the public ones stay."""
    text = written(jwk)
    masked = redact(text)[0]
    public = {"kty", "e", "n", "x", "y", "crv", "alg"}

    assert [] == [name for name, value in jwk.items() if (value in masked) != (name in public)]
    assert may_hold_secret(text)


def test_a_public_jwk_stays():
    """A key set without private members, and a member with such a name elsewhere, stay."""
    text = json.dumps({"keys": [{"kty": "RSA", "e": "AQAB", "n": url64(256), "kid": url64(24)}]})
    other = json.dumps({"d": url64(32), "name": "digest"})

    assert (text + other, ()) == redact(text + other)


@pytest.mark.parametrize("prefix", ["", "  12→", "+"])
def test_numbers_that_openssl_prints_are_masked(prefix):
    """The private numbers of `openssl pkey -text` are masked whole, and the modulus stays."""
    names = ("privateExponent", "prime1", "prime2", "exponent1", "exponent2", "coefficient", "priv")
    modulus = f"Private-Key: (2048 bit, 2 primes)\nmodulus:{colons(257)}\npublicExponent: 65537"
    text = modulus + "".join(f"\n{name}:{colons(128)}" for name in names) + "\nASN1 OID: prime256v1"
    masked, found = redact(text.replace("\n", f"\n{prefix}"))

    assert len(names) == len(found)
    assert masked.startswith(modulus.replace("\n", f"\n{prefix}"))
    assert masked.endswith(f"{prefix}priv:\n{prefix}    {MASK}\n{prefix}ASN1 OID: prime256v1")


def test_a_key_in_xml_loses_its_private_numbers():
    """The modulus of an RSAKeyValue stays, and every other number is masked."""
    numbers = {
        name: b64encode(CHANCE.randbytes(128)).decode()
        for name in ("Modulus", "P", "InverseQ", "D")
    }
    text = "".join(f"<{name}>{value}</{name}>\n" for name, value in numbers.items())
    masked = redact(f"<RSAKeyValue>{text}</RSAKeyValue>")[0]

    assert ["Modulus"] == [name for name, value in numbers.items() if value in masked]


def test_keys_in_lists_of_bytes_are_masked():
    """A key as a list of bytes, as Node and Python print it, is masked; a certificate stays."""
    key = list("\n".join(KEYS["rsa"](CHANCE)).encode())
    public = list("\n".join(certificate(CHANCE)).encode())

    for text in (json.dumps(key), json.dumps({"type": "Buffer", "data": key}, indent=2)):
        masked, found = redact(text)
        assert ("private-key",) == found
        assert len(masked) < 90
    assert (json.dumps(public), ()) == redact(json.dumps(public))


@pytest.mark.parametrize(
    "head",
    [
        "308204a30201000282010100", "3082025c02010002818100", "308204bd020100300d06092a864886f70d0101010500048204a7",
        "3081a40201010430", "308187020100301306072a8648ce3d020106082a8648ce3d030107046d306b0201010420",
        "302e020100300506032b657004220420", "6f70656e7373682d6b65792d763100",
    ],
)  # fmt: skip
def test_der_in_hexadecimal_is_masked(head):
    """A private key in hexadecimal is masked, on one or several lines, in any case; hashes stay."""
    digits = head + CHANCE.randbytes(120).hex()
    lines = "\n".join(textwrap.wrap(digits, 60))

    assert f"key {MASK} end" == redact(f"key {digits} end")[0]
    assert f"key {MASK} end" == redact(f"key {digits.upper()} end")[0]
    assert f"{MASK}\nend" == redact(f"{lines}\nend")[0]


def test_a_short_key_in_hexadecimal_is_masked():
    """A P-256 key, which only the bytes on both sides of it identify, is masked."""
    secret, public = CHANCE.randbytes(32).hex(), CHANCE.randbytes(64).hex()
    digits = f"30770201010420{secret}a00a06082a8648ce3d030107a14403420004{public}"

    assert f"key {MASK} end" == redact(f"key {digits} end")[0]


def test_public_keys_and_hashes_in_hexadecimal_stay():
    """The encoding of a public key, and other hexadecimal digits, stay."""
    for head in (
        "30820122300d06092a864886f70d01010105000382010f00",
        "3059301306072a8648ce3d0201",
        "",
    ):
        text = f"{head}{CHANCE.randbytes(64).hex()} a\n{CHANCE.randbytes(32).hex()} b"

        assert (text, ()) == redact(text)


def wif(content):
    content += hashlib.sha256(hashlib.sha256(content).digest()).digest()[:4]
    number, text = int.from_bytes(content, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = BASE58[digit] + text
    return text


def test_keys_of_bitcoin_are_known_by_their_checksum():
    """A key in the import format is masked; the same characters in another order stay."""
    for _ in range(40):
        secret = CHANCE.randbytes(32)
        keys = wif(b"\x80" + secret), wif(b"\x80" + secret + b"\1")
        for key in (key for key in keys if key[0] in "5K"):
            assert f"a {MASK}, b" == redact(f"a {key}, b")[0]
            other = f"a {key[:9]}{key[:8:-1]}, b"
            assert (other, ()) == redact(other)
