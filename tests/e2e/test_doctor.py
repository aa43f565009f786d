"""The findings of `handoff doctor` about the real Claude Code are true, and its remedies work."""

import json
import shutil
import subprocess

from conftest import REPOSITORY
from e2e.model import say

PLUGIN = "handoffd@handoffd"


def test_an_old_plugin_is_updated_by_the_remedy(claude, live, tmp_path):
    """`version --check` finds a plugin of another version; its remedy installs the right one."""
    market = tmp_path / "market"
    shutil.copytree(REPOSITORY / "client/plugin", market / "client/plugin")
    manifest = market / "client/plugin/.claude-plugin/plugin.json"
    current = json.loads(manifest.read_text())
    listed = {"name": "handoffd", "source": "./client/plugin"}
    market.joinpath(".claude-plugin").mkdir()
    market.joinpath(".claude-plugin/marketplace.json").write_text(
        json.dumps({"name": "handoffd", "owner": {"name": "handoffd"}, "plugins": [listed]})
    )
    manifest.write_text(json.dumps({**current, "version": "0.0.1"}))
    claude.does("plugin", "marketplace", "add", str(market))
    claude.does("plugin", "install", PLUGIN)
    manifest.write_text(json.dumps(current))
    before = live.handoff("version", "--check")
    (tmp_path / "claude").symlink_to(claude.program)
    subprocess.run(
        ["sh", "-c", before.stdout.partition("Run: ")[2]],
        env={**claude.environment, "PATH": f"{tmp_path}:/usr/bin:/bin"}, cwd=claude.cwd,
        stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    after = live.handoff("version", "--check")

    assert 6 == before.returncode
    assert "plugin  0.0.1" in before.stdout
    assert (0, current["version"]) == (after.returncode, after.stdout.split()[-1])


def test_zero_days_switch_the_hooks_off(claude, live, tmp_path, model):
    """With cleanupPeriodDays 0 no hook of the settings runs, as doctor says; with 365 it does."""
    told = tmp_path / "told"
    hook = {"type": "command", "command": f"touch {told}"}
    hooks = {"hooks": {"SessionStart": [{"hooks": [hook]}]}}
    settings = claude.config / "settings.json"
    ran, said = [], []
    for days in (0, 365):
        settings.write_text(json.dumps({**hooks, "cleanupPeriodDays": days}))
        said.append("refuses that file" in live.handoff("doctor").stdout)
        model.will(say("Done."))
        claude.asked("Hello")
        ran.append(told.exists())

    assert [False, True] == ran
    assert [True, False] == said
