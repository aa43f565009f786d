"""The lookout: which paths it takes a hint for."""

from handoffd.lookout import Lookout


def test_hint_through_a_symlink(tmp_path):
    """A hook names a transcript by the path its client knows; a link above it changes nothing."""
    real = tmp_path / "elsewhere/projects"
    (real / "-p").mkdir(parents=True)
    (tmp_path / ".claude").symlink_to(tmp_path / "elsewhere")
    lookout = Lookout([str(real)], None, None)

    lookout.hint(f"{tmp_path}/.claude/projects/-p/a.jsonl")
    lookout.hint(f"{tmp_path}/.claude/history.jsonl")
    lookout.hint("")

    assert {f"{real}/-p/a.jsonl"} == lookout._dirty
