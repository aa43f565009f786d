"""The bundle for Claude Desktop, made by the official packer and started as its manifest says."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import StdioServerParameters

from conftest import BIN, REPOSITORY, DaemonSandbox
from e2e.claude import program
from handoff import __version__
from mcp_clients import TOOLS, side

# A program with windows is given no more than this.
DESKTOP_PATH = "/usr/bin:/bin"
# Claude Desktop makes a server's command of a manifest by this function of the packer's package.
COMMAND = """
import { readFileSync } from "node:fs";
const [library, extensionPath, userConfig] = process.argv.slice(1);
const { getMcpConfigForManifest } = await import(library);
const manifest = JSON.parse(readFileSync(`${extensionPath}/manifest.json`, "utf-8"));
const given = { manifest, extensionPath, systemDirs: {}, pathSeparator: "/" };
const found = await getMcpConfigForManifest({ ...given, userConfig: JSON.parse(userConfig) });
console.log(JSON.stringify(found));
"""


def make(*words: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["make", "--no-print-directory", "desktop-bundle", f"PYTHON={sys.executable}", *words],
        cwd=REPOSITORY, env={**os.environ, **environment}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory) -> Path:
    """The bundle, packed and unpacked again by the official packer."""
    packer = program("HANDOFFD_TEST_MCPB")
    place = tmp_path_factory.mktemp("desktop")
    made = make(f"MCPB={packer}", f"BUNDLE={place}/handoffd.mcpb")
    assert made.returncode == 0, made.stdout + made.stderr
    assert "Manifest schema validation passes!" in made.stdout
    words = [packer, "unpack", place / "handoffd.mcpb", place / "handoffd"]
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    return place / "handoffd"


def server(bundle: Path, home: Path, settings: dict, **more: str) -> StdioServerParameters:
    """Return the parameters by which Claude Desktop starts the server, with a person's settings."""
    library = program("HANDOFFD_TEST_MCPB").parent / "node_modules/@anthropic-ai/mcpb/dist/index.js"
    node = program("HANDOFFD_TEST_NODE")
    words = [node, "--input-type=module", "-e", COMMAND, library, bundle, json.dumps(settings)]
    found = json.loads(subprocess.check_output(words, text=True, timeout=60))
    environment = {**found["env"], "HOME": str(home), "PATH": DESKTOP_PATH, **more}
    return StdioServerParameters(command=found["command"], args=found["args"], env=environment)


def run(started: StdioServerParameters) -> subprocess.CompletedProcess:
    return subprocess.run(
        [started.command, *started.args],
        env=started.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip


@pytest.fixture
def desktop(sandbox: DaemonSandbox):
    """A HOME in which no daemon runs at first."""
    sandbox.transcripts.mkdir(parents=True)
    yield sandbox
    sandbox.handoff("down")


def test_manifest_is_the_package_s(unpacked: Path):
    """The bundle has the version, the tools and the licence of the package, and little besides."""
    manifest = json.loads((unpacked / "manifest.json").read_text())
    listed = json.loads((REPOSITORY / "daemon/handoffd/api/tools.json").read_text())

    assert __version__ == manifest["version"]
    assert TOOLS == [tool["name"] for tool in manifest["tools"]]
    assert [t["description"] for t in listed] == [t["description"] for t in manifest["tools"]]
    assert ["LICENSE", "manifest.json", "server/start"] == sorted(
        str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()
    )


@pytest.mark.parametrize("way", ["installed", "named", "named by its directory", "on the PATH"])
def test_the_bundle_speaks_for_chat(unpacked: Path, desktop: DaemonSandbox, way: str):
    """Claude Desktop finds the handoff that is installed, though no daemon runs, and is Chat."""
    settings, path = {}, DESKTOP_PATH
    if way == "installed":
        # As pipx and uv leave it.
        local = desktop.home / ".local/bin"
        local.mkdir(parents=True)
        (local / "handoff").symlink_to(BIN / "handoff")
    elif way == "on the PATH":
        path = f"{desktop.home}:{BIN}:{DESKTOP_PATH}"
        # Another program of that name is none of ours.
        foreign = desktop.home / "handoff"
        foreign.write_text("#!/bin/sh\nexit 1\n")
        foreign.chmod(0o755)
    else:
        settings = {"handoff_path": str(BIN / "handoff" if way == "named" else BIN)}
    environment = {"XDG_RUNTIME_DIR": str(desktop.runtime), "PATH": path}
    started = server(unpacked, desktop.home, settings, **environment)

    async def play() -> None:
        async with side(started) as chat:
            listed = await chat.client.list_tools()
            made = await chat.call("create_handoff", title="Auth", content="JWT.")

            assert set(TOOLS) == {tool.name for tool in listed.tools}
            assert "chat" == made["entries"][0]["from_client"]

    asyncio.run(play())
    assert desktop.answers()


def test_nothing_installed_is_said(unpacked: Path, tmp_path: Path):
    """Without a handoff on the machine the log of Claude Desktop names the remedy."""
    done = run(server(unpacked, tmp_path, {}))

    assert (1, "") == (done.returncode, done.stdout)
    assert "There is no handoff on this machine" in done.stderr
    assert "pipx install ." in done.stderr
    assert "command -v handoff" in done.stderr


def test_a_wrong_path_is_said(unpacked: Path, tmp_path: Path):
    """A configured path that leads nowhere is an error, and no other program is started."""
    done = run(server(unpacked, tmp_path, {"handoff_path": "~/bin/handoff"}, PATH=f"{BIN}:/bin"))

    assert (1, "") == (done.returncode, done.stdout)
    assert f"There is no handoff of handoffd at {tmp_path}/bin/handoff." in done.stderr


def test_without_npm_the_target_says_what_it_needs(tmp_path: Path):
    """`make desktop-bundle` without npm names the missing program."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("make", "find"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    done = make(f"BUNDLE={tmp_path}/handoffd.mcpb", PATH=str(tools), MCPB="")

    assert 2 == done.returncode
    assert "fetched by npm" in done.stderr
    assert not (tmp_path / "handoffd.mcpb").exists()
