"""Builds of a person's package that would take in .flow-guardian/: doctor says so, and is right."""

import contextlib
import json
import os
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest
from hatchling.build import build_sdist, build_wheel

from conftest import wait_for
from handoff.examination.packaging import TARGET, judge

HATCH = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n[project]\nname = "shop"\nversion = "1"\n'
TOOLS = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n[project]\nname = "shop"\nversion = "1"\n[tool.setuptools]\npackages = []\n'
SDIST = "[tool.hatch.build.targets.sdist]\n"
WHEEL = "[tool.hatch.build.targets.wheel]\n"


def hatch(more="", **files):
    return {"pyproject.toml": HATCH + more, "shop/__init__.py": "", **files}


def manifest(text):
    return {"pyproject.toml": TOOLS, "MANIFEST.in": text}


def npm(*, ignore=None, own=None, **package):
    files = {"package.json": json.dumps({"name": "x", "version": "1.0.0", **package})}
    files |= {} if ignore is None else {".npmignore": ignore}
    files |= {} if own is None else {".flow-guardian/.gitignore": own}
    return files | {"index.js": "1"}


LAYOUTS = {
    "sdist of hatchling": [
        hatch(),
        hatch(**{".gitignore": "dist/\n"}),
        hatch(**{".gitignore": ".flow-guardian/\n"}),
        hatch(**{".gitignore": "/.flow-guardian\n"}),
        hatch(**{".gitignore": ".*\n!.gitignore\n"}),
        hatch(**{".gitignore": "*.yaml\n"}),
        hatch(**{".gitignore": ".flow-guardian\n!.flow-guardian\n"}),
        hatch(SDIST + 'exclude = [".flow-guardian"]\n'),
        hatch(SDIST + 'exclude = ["/.flow-guardian/*.yaml"]\n'),
        hatch(SDIST + 'exclude = ["docs"]\n'),
        hatch('[tool.hatch.build]\nexclude = [".flow-guardian/"]\n'),
        hatch(SDIST + 'include = ["/shop"]\n'),
        hatch(SDIST + 'include = ["*.yaml", "*.py"]\n'),
        hatch(SDIST + 'include = ["**/*.py"]\n'),
        hatch(SDIST + 'only-include = ["shop"]\n'),
        hatch(SDIST + 'only-include = [".flow-guardian", "shop"]\n'),
        hatch(SDIST + 'packages = ["shop"]\n'),
        hatch("[tool.hatch.build]\nignore-vcs = true\n", **{".gitignore": ".flow-guardian\n"}),
        hatch(SDIST + 'artifacts = ["*.yaml"]\n', **{".gitignore": ".flow-guardian\n"}),
        hatch(SDIST + '[tool.hatch.build.targets.sdist.force-include]\n".flow-guardian" = "state"\n', **{".gitignore": ".flow-guardian\n"}),
    ],
    "wheel of hatchling": [
        hatch(),
        hatch(WHEEL + 'include = ["*"]\n'),
        hatch(WHEEL + 'include = ["*"]\n', **{".gitignore": ".flow-guardian/\n"}),
        hatch(SDIST + 'exclude = [".flow-guardian"]\n' + WHEEL + 'include = ["*"]\n'),
        hatch(WHEEL + 'include = ["*"]\nexclude = [".flow-guardian"]\n'),
        hatch(WHEEL + 'include = ["*.py"]\n'),
        hatch(WHEEL + 'exclude = ["docs"]\n'),
        hatch(WHEEL + 'packages = ["shop"]\n'),
        hatch(WHEEL + 'only-include = ["."]\n'),
        hatch(WHEEL + 'only-include = [".flow-guardian"]\n'),
        hatch(WHEEL + '[tool.hatch.build.targets.wheel.force-include]\n".flow-guardian" = "state"\n'),
        hatch('[tool.hatch.build]\ninclude = ["*"]\n'),
        hatch(WHEEL + 'artifacts = ["*.yaml"]\n'),
        hatch(WHEEL + 'only-include = ["shop"]\nartifacts = ["*.yaml"]\n'),
    ],
    "setuptools": [
        {"pyproject.toml": TOOLS},
        {"setup.py": "from setuptools import setup\nsetup(name='shop', version='1', packages=[])\n"},
        {"setup.py": "from setuptools import setup\nsetup(name='shop', version='1', packages=[])\n", "MANIFEST.in": "graft .\n"},
        manifest("graft .\n"),
        manifest("graft .\nprune .flow-guardian\n"),
        manifest("graft .\nprune .flow-guardian/\nglobal-include *.yaml\n"),
        manifest("graft .flow-guardian\n"),
        manifest("graft docs\n"),
        manifest("include *\n"),
        manifest("include .flow-guardian/*\n"),
        manifest("include .flow-guardian/handoff.yaml  # why not\n"),
        manifest("global-include *.yaml\n"),
        manifest("global-include *.yaml\nglobal-exclude handoff.yaml\n"),
        manifest("recursive-include .flow-guardian *.yaml\n"),
        manifest("recursive-include .flow-guardian *.txt\n"),
        manifest("recursive-include . *\n"),
        manifest("recursive-include * *.yaml\n"),
        manifest("graft .*\n"),
        manifest("graft .\nrecursive-exclude .flow-guardian *\n"),
        manifest("graft .\nexclude .flow-guardian/*.yaml\n"),
    ],
    "npm": [
        npm(),
        npm(ignore="node_modules\n"),
        npm(files=["index.js"]),
        npm(files=["."]),
        npm(files=["*"]),
        npm(files=["**"]),
        npm(files=[".flow-guardian"]),
        npm(files=[".flow-guardian/**"]),
        npm(files=["/.flow-guardian/handoff.yaml"]),
        npm(files=["**/*.yaml"]),
        npm(own=""),
        npm(own="!handoff.yaml\n"),
        npm(own="", ignore=".flow-guardian\n"),
        npm(own="", ignore="dist\n") | {".gitignore": ".flow-guardian\n"},
        npm(own="") | {".gitignore": ".flow-guardian\n"},
        npm(own="", files=["index.js"]),
        npm(own="", files=["*.yaml"]),
        npm(own="", files=[".flow-guardian"]),
        npm() | {".flow-guardian/.npmignore": ""},
        npm(own="") | {".flow-guardian/.npmignore": "*\n"},
    ],
}  # fmt: skip


def lay(root: Path, files: dict[str, str]) -> Path:
    ours = {
        TARGET: "goal: x\n",
        ".flow-guardian/.gitignore": "*\n",
        ".flow-guardian/.handoff.lock": "",
    }
    for name, text in {**ours, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def names_in(directory):
    (made,) = directory.glob("*.tar.gz")
    with tarfile.open(made) as archive:
        return archive.getnames()


def packed_by_hatchling(roots):
    for root in roots:
        with contextlib.chdir(root):
            build_sdist(str(root / "out"))
    return [names_in(root / "out") for root in roots]


def wheel_by_hatchling(roots):
    for root in roots:
        with contextlib.chdir(root):
            build_wheel(str(root / "out"))
    return [zipfile.ZipFile(next((root / "out").glob("*.whl"))).namelist() for root in roots]


SETUPTOOLS = """
import os, sys
from setuptools.build_meta import build_sdist
for root in sys.argv[1:]:
    os.chdir(root)
    build_sdist("out")
"""


def packed_by_setuptools(roots):
    words = [sys.executable, "-P", "-c", SETUPTOOLS, *map(str, roots)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr
    return [names_in(root / "out") for root in roots]


def packed_by_npm(roots):
    node = os.environ.get("HANDOFFD_TEST_NODE")
    if not node:
        pytest.skip("HANDOFFD_TEST_NODE is not set")
    program = Path(node).parent.parent / "lib/node_modules/npm/bin/npm-cli.js"
    environment = {"HOME": str(roots[0]), "PATH": f"{Path(node).parent}:{os.environ['PATH']}"}
    words = [node, program, "pack", "--dry-run", "--json", "--ignore-scripts", "--offline"]
    found = []
    for root in roots:
        done = subprocess.run(
            words, cwd=root, env=environment, capture_output=True, text=True, check=True
        )
        found.append([entry["path"] for entry in json.loads(done.stdout)[0]["files"]])
    return found


PACKERS = {
    "sdist of hatchling": packed_by_hatchling,
    "wheel of hatchling": wheel_by_hatchling,
    "setuptools": packed_by_setuptools,
    "npm": packed_by_npm,
}


@pytest.mark.parametrize(
    "tool",
    [
        "sdist of hatchling",
        "wheel of hatchling",
        pytest.param("setuptools", marks=pytest.mark.long),
        pytest.param("npm", marks=pytest.mark.long),
    ],
)
def test_doctor_agrees_with_the_tool(tmp_path, tool, record_property):
    """In each of many layouts doctor finds a leak exactly where the real tool has one."""
    layouts = LAYOUTS[tool]
    roots = [lay(tmp_path / str(number), files) for number, files in enumerate(layouts)]
    said = [any(tool in finding.text for finding in judge(str(root))) for root in roots]
    taken = [any(n.endswith("/handoff.yaml") for n in names) for names in PACKERS[tool](roots)]
    leaks = sum(taken)
    wrong = [files for files, a, b in zip(layouts, said, taken, strict=True) if a != b]
    assert [] == wrong
    assert 3 <= leaks <= len(LAYOUTS[tool]) - 3
    record_property(
        "figure", f"{tool}: {len(LAYOUTS[tool])} of {len(LAYOUTS[tool])}, {leaks} leaks"
    )


# docker cannot be run here: these follow its documentation.
DOCKER = [
    (True, {"Dockerfile": "FROM x\nCOPY . /app\n"}),
    (True, {"Dockerfile": "FROM x\nADD --chown=a:b ./ /app\n"}),
    (True, {"Dockerfile": "FROM x\nCOPY \\\n  . \\\n  /app\n"}),
    (True, {"Dockerfile": 'FROM x\nCOPY ["src", ".", "/app"]\n'}),
    (True, {"Dockerfile": "FROM x\nCOPY * /app/\n"}),
    (True, {"Dockerfile": "FROM x\nCOPY . /app\n", ".dockerignore": "node_modules\n"}),
    (True, {"Dockerfile": "FROM x\nCOPY . /app\n", ".dockerignore": "handoff.yaml\n"}),
    (True, {"Dockerfile": "FROM x\nCOPY . /app\n", ".dockerignore": "*\n!.flow-guardian\n"}),
    (True, {"Containerfile": "FROM x\nCOPY . /app\n", ".gitignore": ".flow-guardian\n"}),
    (True, {"web.Dockerfile": "FROM x\nCOPY . /app\n", "web.Dockerfile.dockerignore": "dist\n", ".dockerignore": ".flow-guardian\n"}),
    (False, {"Dockerfile": "FROM x\nCOPY . /app\n", ".dockerignore": ".flow-guardian\n"}),
    (False, {"Dockerfile": "FROM x\nCOPY . /app\n", ".dockerignore": ".flow-guardian/\n"}),
    (False, {"Dockerfile": "FROM x\nCOPY . /app\n", ".dockerignore": "**/.flow-guardian\n"}),
    (False, {"Dockerfile": "FROM x\nCOPY . /app\n", ".dockerignore": ".*\n"}),
    (False, {"Dockerfile": "FROM x\nCOPY . /app\n", ".dockerignore": "*\n!src\n"}),
    (False, {"Dockerfile": "FROM x\nCOPY . /app\n", ".dockerignore": "**/*.yaml\n"}),
    (False, {"Dockerfile": "FROM x\nCOPY src /app\n"}),
    (False, {"Dockerfile": "FROM x\nCOPY --from=build . /app\n"}),
    (False, {"Dockerfile": "FROM x\n# COPY . /app\n"}),
    (False, {"docs/Dockerfile": "FROM x\nCOPY . /app\n"}),
]  # fmt: skip


def test_doctor_knows_dockers_rules(tmp_path, record_property):
    """An image takes in the handoff where its Dockerfile copies it and no .dockerignore names it."""
    wrong = []
    for number, (expected, files) in enumerate(DOCKER):
        root = lay(tmp_path / str(number), files)
        said = [finding.text for finding in judge(str(root))]
        if expected != any("image" in text for text in said):
            wrong.append((files, expected, said))
    assert [] == wrong
    record_property("figure", f"docker: {len(DOCKER)} of {len(DOCKER)}, by its rules")


def test_the_remedy_helps(live):
    """Doctor names the file and the line; with it in place there is nothing to find."""
    project = live.project()
    lay(project, {"pyproject.toml": TOOLS, "MANIFEST.in": "graft .\n", "Dockerfile": "COPY . /\n"})
    live.session(project).prompt("Build a package here")
    wait_for(lambda: "Build a package" in live.yaml(project), 30)
    done = live.handoff("doctor", cwd=project)
    assert 1 == done.returncode
    assert f"Put a last line into {project}/MANIFEST.in: prune .flow-guardian" in done.stdout
    assert f"Put a line into {project}/.dockerignore: .flow-guardian" in done.stdout

    (project / "MANIFEST.in").write_text("graft .\nprune .flow-guardian\n")
    (project / ".dockerignore").write_text(".flow-guardian\n")
    assert "packaging" not in live.handoff("doctor", cwd=project).stdout


def test_git_would_take_it_in(tmp_path, live):
    """A repository that brings along a .gitignore of its own for our directory is found out."""
    project = live.project()
    lay(project, {".flow-guardian/.gitignore": "!*\n"})
    live.git(project, "add", "-A")
    assert TARGET in live.git(project, "ls-files")
    assert ["`git add -A` takes in .flow-guardian/handoff.yaml"] == [
        f.text for f in judge(str(project))
    ]

    (project / ".flow-guardian/.gitignore").write_text("*\n")
    assert [] == judge(str(project))


def test_nothing_of_a_project_holds_doctor_up(tmp_path):
    """FIFOs, damaged and huge files in the place of each of these are read as nothing."""
    lay(tmp_path, {})
    for name in ("pyproject.toml", "package.json", "MANIFEST.in", "Dockerfile", ".dockerignore"):
        for make in (os.mkfifo, os.mkdir, lambda p: p.write_bytes(b"[" * (1 << 20)), lambda p: p.write_bytes(b'{"files": 5, "build-system": []}')):  # fmt: skip
            make(tmp_path / name)
            judge(str(tmp_path))
            (tmp_path / name).rmdir() if (tmp_path / name).is_dir() else (tmp_path / name).unlink()


LONG = 1 << 17
# What may end in many places, again and again; with a last letter that is not ours.
SLOW = ["[!x]" * 26, "*[!x]" * 13, "[" * LONG, "[a" * LONG, "**/" * LONG, "*?" * LONG, "?*[!/]" * LONG, "*[" + "a-z" * LONG]  # fmt: skip


@pytest.mark.timeout(120)
def test_patterns_made_to_be_slow(tmp_path, record_property):
    """Lists as long as they may be, of patterns made to be slow, are read to their last line."""
    began = time.process_time()
    for number, slow in enumerate(SLOW):
        line = f"{slow[: LONG // 2 - 2]}q"
        lines = f"{line}\n" * (LONG // 2 // len(line))
        ignore = f"{lines}.flow-guardian\n"
        words = " ".join(lines.split())
        take = f"recursive-include {line[:999]} {words[: LONG // 4]}\ngraft .\n"
        layouts = {
            "hatchling": (hatch(**{".gitignore": lines}), hatch(**{".gitignore": ignore})),
            "setuptools": (manifest(take), manifest(f"{take}prune .flow-guardian\n")),
            "npm": (npm(own="") , npm(own="", files=lines.split())),
            "image": ({"Dockerfile": "COPY . /\n", ".dockerignore": lines}, {"Dockerfile": "COPY . /\n", ".dockerignore": ignore}),
        }  # fmt: skip
        for tool, (leaking, tight) in layouts.items():
            for leaks, files in ((True, leaking), (False, tight)):
                root = lay(tmp_path / f"{number}-{tool}-{leaks}", files)
                said = [finding.text for finding in judge(str(root))]
                assert leaks == any(tool in text for text in said), (slow[:20], tool, leaks)
    taken = (time.process_time() - began) / len(SLOW) / 8
    record_property("figure", f"{len(SLOW)} kinds in 4 lists: {taken:.1f} s each")


NAMING = ("[.]flow-guardian", "[!a-z]flow[^x]guardian/", "?flow*/hand[a-o]ff.y[]a]ml", "**/h*.yaml", ".flow-guardian/**", "\\.flow-guardian")  # fmt: skip
NOT_NAMING = (".flow-guardian[!x]handoff.yaml", ".flow-guardian?handoff.yaml", ".flow*handoff.yaml", ".flow-guardian/handoff.yaml/", ".flow-guardia[]", "low-guardian")  # fmt: skip


def test_what_a_pattern_names(house):
    """A pattern names what git says it does; neither a class nor a wildcard stands for a slash."""
    root = house.project()
    for pattern in (*NAMING, *NOT_NAMING):
        lay(root, {".flow-guardian/.gitignore": "", ".gitignore": f"{pattern}\n"})
        listed = house.git(root, "ls-files", "--others", "--exclude-standard")
        assert (pattern in NAMING) == (TARGET not in listed), pattern
        assert (pattern in NAMING) == ([] == judge(str(root))), pattern
