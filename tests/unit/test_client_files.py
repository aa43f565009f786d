"""The JSON files of Claude Code: odd content counts as missing."""

import os

import pytest

from handoffd.agents.claude_code.client_files import read_json


def test_object(tmp_path):
    """An object is read, also through a link, because people keep settings elsewhere."""
    (tmp_path / "real.json").write_text('{"a": [1]}')
    (tmp_path / "link.json").symlink_to("real.json")

    assert {"a": [1]} == read_json(f"{tmp_path}/real.json")
    assert {"a": [1]} == read_json(f"{tmp_path}/link.json")


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "\udcff", '{"a":' * 100_000, '{"a": "' + "x" * (1 << 20) + '"}']
)
def test_odd_text(tmp_path, text):
    """Text that is no object, no JSON, no UTF-8, too deep or too long counts as missing."""
    path = tmp_path / "odd.json"
    path.write_text(text, errors="surrogateescape")

    assert {} == read_json(str(path))


def test_no_file(tmp_path):
    """A pipe without a writer, a directory, a device and no file count as missing, at once."""
    os.mkfifo(tmp_path / "pipe")

    for path in (f"{tmp_path}/pipe", str(tmp_path), "/dev/zero", f"{tmp_path}/none", "/a\0b"):
        assert {} == read_json(path)
