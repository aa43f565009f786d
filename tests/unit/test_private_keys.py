"""Private keys are masked in every listing that a tool makes of them."""

import random
from base64 import b64encode

import pytest

from handoffd.redaction.redact import may_hold_secret, redact
from handoffd.session.text import keep
from listings import KEYS, LISTINGS, certificate, listings, parts, parts_left

BEFORE, AFTER = "I looked at the file:\n", "\nThen I ran the tests again, and all of them passed."
MASK = "[redacted:private-key]"


def drawn(kind):
    return KEYS[kind](random.Random(kind))


@pytest.mark.parametrize("listing", LISTINGS)
def test_keys_are_masked_in_every_listing(listing):
    """No 16 characters of a key of any kind are left, and the text around the key stays."""
    for kind in KEYS:
        key = drawn(kind)
        text = LISTINGS[listing](key)
        masked, kinds = redact(BEFORE + text + AFTER)

        assert [] == parts_left(parts(key), masked), kind
        assert "private-key" in kinds or not parts_left(parts(key), text), kind
        assert may_hold_secret(text) or not kinds, kind
        assert masked.startswith(BEFORE), kind
        assert masked.endswith(AFTER), kind


@pytest.mark.parametrize("listing", LISTINGS)
def test_keys_are_masked_in_a_text_that_is_kept_as_one_line(listing):
    """Lines that were joined before the masking leave nothing of a key of any kind, either."""
    for kind in KEYS:
        key = drawn(kind)
        assert [] == parts_left(parts(key), keep(LISTINGS[listing](key), 8000)), kind


@pytest.mark.parametrize("gap", ["\n" * 9, "\n" * 900, " \n\t\n" * 40, "\n    7\t" * 30, "\n> " * 20])  # fmt: skip
def test_blank_lines_do_not_end_a_key(gap):
    """Each line of a key is masked, with any number of empty lines between them."""
    for kind in KEYS:
        key = drawn(kind)
        assert [] == parts_left(parts(key), redact(gap.join(["", *key, ""]))[0]), kind


@pytest.mark.parametrize("kind", KEYS)
def test_keys_with_a_nul_behind_each_character_are_masked(kind):
    """A key in UTF-16 that was read as bytes is masked, and a NUL still separates two values."""
    key = drawn(kind)
    wide = "\0".join("\n".join(key) + "\n")

    assert [] == parts_left(parts(key), redact(wide)[0].replace("\0", ""))
    assert may_hold_secret(wide)
    assert "ghp_" not in redact("HOME=/home/kim\0ghp_" + "a1B2c3D4e5" * 4)[0]


def test_keys_with_other_bytes_are_masked(record_property):
    """Two keys of each kind are masked in each listing: a key's bytes do not matter."""
    keys = [make(random.Random(seed)) for make in KEYS.values() for seed in range(2)]
    left = [
        name
        for key in keys
        for name, text in listings(key)
        if parts_left(parts(key), redact(text)[0])
    ]

    assert [] == left
    record_property("figure", f"{len(KEYS)} kinds of keys in {len(LISTINGS)} listings")


@pytest.mark.parametrize("listing", [name for name in LISTINGS if "middle" not in name])
def test_certificates_stay(listing):
    """A certificate is no secret: with one of its marks in sight it stays unchanged."""
    text = LISTINGS[listing](certificate(random.Random(3)))

    assert (text, ()) == redact(text)


def test_only_the_key_goes_from_a_file_with_its_certificate():
    """A certificate before or behind a key stays whole."""
    one, key, other = (certificate(random.Random(1)), drawn("rsa"), certificate(random.Random(2)))
    lines = ["\n".join(part) for part in (one, key, other)]

    assert "\n".join([lines[0], MASK, lines[2]]) == redact("\n".join(lines))[0]


@pytest.mark.parametrize(
    "text",
    [
        "if '-----BEGIN PRIVATE KEY-----' in text:\n    raise LeakedKey(path, line_number)",
        "It starts with -----BEGIN RSA PRIVATE KEY----- and ends with -----END RSA PRIVATE KEY-----.",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----\nPaste your own key here.",
        "id:1:-----BEGIN OPENSSH PRIVATE KEY-----\ncommit 3f2a1bc9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f4a3",
        "finds('-----BEGIN EC PRIVATE KEY-----', await scanTheUploadedConfigurationFile2(path));",
        "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,3f2a1bc9d8e7f6a5b4c3d2e1f0a9b8c7",
        "HUNK EXPECTED\nThe K E Y is on the left.",
    ],
)
def test_a_mark_that_is_only_mentioned_hides_nothing(text):
    """A mark without the body of a key behind it is ordinary text."""
    assert (text, ()) == redact(text)


def test_hashes_in_columns_stay():
    """Hashes of files with equal length, in hexadecimal or base64 with a name, are no key."""
    chance = random.Random(7)
    text = "\n".join(
        f"{chance.randbytes(32).hex()}  f{n}.js\nintegrity sha384-{b64encode(chance.randbytes(48)).decode()}"
        for n in range(9)
    )

    assert (text, ()) == redact(text)
