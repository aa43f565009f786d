"""Make the Claude Desktop bundle: `make desktop-bundle`, or `python3 desktop/bundle.py FILE`.

The manifest's version and tools are the package's own. Anthropic's packer, from npm, checks and
packs the bundle; $MCPB may name a packer that is installed.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent
PACKER = "@anthropic-ai/mcpb@2.1.2"
MISSING = f"""\
The bundle is packed by Anthropic's packer, {PACKER}, which is fetched by npm.
Install Node.js, which brings npm along, or name a packer of your own:
    make desktop-bundle MCPB=/path/to/mcpb"""


def packer() -> list[str]:
    """Return the command that starts the packer."""
    given = shlex.split(os.environ.get("MCPB", ""))
    if given:
        return given
    npx = shutil.which("npx")
    if npx is None:
        sys.exit(MISSING)
    return [npx, "--yes", PACKER]


def manifest() -> dict[str, object]:
    """Return the manifest, completed from the package."""
    found: dict[str, object] = json.loads((HERE / "manifest.json").read_text(encoding="utf-8"))
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    tools = json.loads((REPOSITORY / "daemon/handoffd/api/tools.json").read_text(encoding="utf-8"))
    found["version"] = project["version"]
    found["tools"] = [{k: tool[k] for k in ("name", "description")} for tool in tools]
    return found


def lay_out(place: Path) -> None:
    """Put all files of the bundle into a directory."""
    text = json.dumps(manifest(), indent=2, ensure_ascii=False)
    (place / "manifest.json").write_text(text + "\n", encoding="utf-8")
    shutil.copytree(HERE / "server", place / "server")
    shutil.copy(REPOSITORY / "LICENSE", place / "LICENSE")


def main(target: Path) -> None:
    words = packer()
    with tempfile.TemporaryDirectory() as place:
        lay_out(Path(place))
        for step in (["validate", f"{place}/manifest.json"], ["pack", place, str(target)]):
            done = subprocess.run([*words, *step], check=False, stdin=subprocess.DEVNULL)
            if done.returncode:
                sys.exit(f"{shlex.join([*words, *step])} failed: the bundle was not made.")
    print(f"\n{target}: open it with Claude Desktop (docs/mcp.md).")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "dist/handoffd.mcpb"))
