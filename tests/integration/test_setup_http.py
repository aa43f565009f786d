"""`handoff setup --with http` in an environment without the package mcp, and the way back."""

import importlib.metadata
import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the package mcp is missing: pip install 'handoffd[http]'")

from conftest import REPOSITORY
from http_clients import Visitor, free_port
from setup_home import Place

# Made anew in the environment of the test; all other libraries are those of the tests.
OURS = ("handoff", "handoffd", "mcp", "uvicorn")
NAMES = ("mcp", "uvicorn")


def packed(name: str, directory: Path) -> None:
    """Pack an installed package as the wheel that it came from."""
    found = importlib.metadata.distribution(name)
    wheel = directory / f"{name}-{found.version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in found.files:
            if ".." not in path.parts and path.suffix != ".pyc":
                archive.write(path.locate(), str(path))


class Environment(Place):
    """A HOME, and a virtual environment with handoffd and without mcp."""

    def __init__(self, sandbox, directory: Path):
        super().__init__(sandbox)
        self.directory = directory / "venv"
        venv.create(self.directory, with_pip=False)
        self.site = next(self.directory.glob("lib/python3*/site-packages"))
        for path in Path(sysconfig.get_path("purelib")).iterdir():
            if path.name.split("-")[0].split(".")[0] not in OURS:
                (self.site / path.name).symlink_to(path)
        self.wheels = directory / "wheels"
        self.wheels.mkdir()
        for name in NAMES:
            packed(name, self.wheels)
        self.port = free_port()
        self.environment = {
            "PATH": f"{self.home}/bin:/usr/bin:/bin",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
        }
        self.pip("install", "--quiet", "--no-deps", str(max((REPOSITORY / "dist").glob("*.whl"))))
        self.write(self.config, f"# mine\n[http]\nport = {self.port}\n")

    def pip(self, *words: str) -> str:
        done = subprocess.run(
            [self.directory / "bin/python", "-m", "pip", "--disable-pip-version-check", *words],
            env={**os.environ, **self.environment}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert 0 == done.returncode, done.stderr
        return done.stdout

    def handoff(self, *words: str, **environment: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [self.directory / "bin/handoff", *words],
            env={**self.sandbox.environment, **self.environment, **environment},
            cwd=self.home, capture_output=True, text=True, check=False, timeout=250,
        )  # fmt: skip

    def packages(self) -> list[str]:
        return sorted(path.name for path in self.site.glob("*.dist-info"))

    @property
    def token(self) -> Path:
        return self.sandbox.state / "http-token"


@pytest.fixture
def place(sandbox, tmp_path):
    """An environment in which nothing was set up."""
    if not sorted((REPOSITORY / "dist").glob("*.whl")):
        pytest.skip("there is no wheel in dist/: `make test` builds one")
    if sys.prefix == sys.base_prefix:
        pytest.skip("the tests do not run in a virtual environment of their own")
    found = Environment(sandbox, tmp_path)
    yield found
    found.handoff("down")


@pytest.mark.quick
def test_one_command_turns_it_on_and_teardown_takes_it_out(place):
    """Setup installs, makes the token, opens HTTP and says the lines; teardown leaves no trace."""
    before, packages = place.tree(), place.packages()

    said = place.does("setup", "--yes", "--with", "http")

    url = f"http://127.0.0.1:{place.port}/mcp"
    assert f"HTTP is on: {url}\n" in said
    assert f"claude mcp add --scope user --transport http handoffd {url}" in said
    assert "handoff setup --with http --public-url https://NAME" in said
    assert {"mcp", "uvicorn"} == {name.split("-")[0] for name in {*place.packages()} - {*packages}}
    assert 200 == Visitor(place.sandbox, place.port).send("GET", "/health").status
    assert 0o600 == place.token.stat().st_mode & 0o777
    assert f"# mine\n[http]\nenabled = true\nport = {place.port}\n" == place.config.read_text()
    again = place.does("setup", "--yes", "--with", "http")
    assert again.startswith(f"Everything is in place.\n\nHTTP is on: {url}\n")

    assert "restore the packages in" in place.does("teardown", "--yes")

    assert packages == place.packages()
    assert before == place.tree()
    assert not place.token.exists()


def test_the_public_address_turns_oauth_on(place):
    """With --public-url the connector's address and the approval are said, and OAuth answers."""
    said = place.does("setup", "--yes", "--public-url", "https://Bridge.example.org/")

    assert "Add custom connector: https://bridge.example.org/mcp\n" in said
    assert "handoff token approve CODE" in said
    visitor = Visitor(place.sandbox, place.port, headers={"Host": "bridge.example.org"})
    found = visitor.send("GET", "/.well-known/oauth-authorization-server").json
    assert "https://bridge.example.org" == found["issuer"]

    # The person edits the configuration; only our two values go.
    place.config.write_text(place.config.read_text() + "secret_path = true\n")
    place.handoff("teardown", "--yes")
    assert f"# mine\n[http]\nport = {place.port}\nsecret_path = true\n" == place.config.read_text()


def test_packages_that_others_need_stay(place):
    """A package that something else needs by now is not uninstalled."""
    place.does("setup", "--yes", "--without", "service", "--with", "http")
    other = place.site / "other-1.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Name: other\nVersion: 1.0\nRequires-Dist: uvicorn\n")

    place.does("teardown", "--yes")

    left = {name.split("-")[0] for name in place.packages()}
    assert {"uvicorn"} == left & {"mcp", "uvicorn"}


def test_a_failed_installation_changes_nothing(place):
    """If the packages cannot be had, the reason is said, and nothing has changed."""
    for wheel in place.wheels.iterdir():
        wheel.unlink()

    said = place.refuses("--with", "http")

    assert "No matching distribution found for" in said
    assert "nothing has changed" in said
    assert not place.token.exists()


def test_uv_installs_where_there_is_no_pip(place):
    """An environment without pip, as uv makes it, is changed by uv; without uv, setup says so."""
    (place.site / "pip").unlink()
    assert "nor is uv on PATH" in place.refuses("--with", "http")
    noted = place.home.parent / "uv-was-asked"
    place.program("uv", f'echo "$@" >>{noted}')

    place.does("setup", "--yes", "--without", "service", "--with", "http")

    python = place.directory / "bin/python"
    wanted = "mcp<3,>=2.3 uvicorn<1,>=0.31.1"
    assert f"pip install --python {python} {wanted}\n" == noted.read_text()


def test_packages_of_a_killed_setup_are_taken_out(place):
    """Notes without the packages after the installation still say what was there before."""
    packages = place.packages()
    place.does("setup", "--yes", "--without", "service", "--with", "http")
    noted = json.loads(place.noted.read_text())
    del noted["http"]["packages_after"]
    place.noted.write_text(json.dumps(noted))

    place.does("teardown", "--yes")

    assert packages == place.packages()


@pytest.mark.parametrize(
    "url", ["http://a.example", "https://a.example/x", "a.example", "https://u@a"]
)
def test_an_address_that_is_none(sandbox, url):
    """A public address is https and a name, without a path."""
    assert "is no public address" in Place(sandbox).refuses("--public-url", url)
