"""The documents agree with the code."""

import ast
import re
import tomllib
from functools import cache

import pytest

from conftest import REPOSITORY
from handoff import cli
from handoffd.api import registry
from handoffd.config import Config


def read(name: str) -> str:
    return (REPOSITORY / name).read_text()


def test_every_method_is_documented():
    """docs/protocol.md has exactly one heading per method, and names each parameter."""
    text = read("docs/protocol.md").split("## Methods")[1]
    sections = dict(re.findall(r"(?ms)^### (\w+)\n(.*?)(?=^### |\Z)", text))

    assert set(registry.NAMES) == set(sections)
    for name, method in ((name, registry.method(name)) for name in registry.NAMES):
        for parameter in method.params.model_fields:
            assert f"`{parameter}`" in sections[name], (name, parameter)


def test_every_method_but_watch_is_a_command():
    """Every method has the name of a command of the client."""
    assert set(registry.NAMES) <= set(cli.COMMANDS)


def test_every_command_is_documented():
    """docs/commands.md names every command."""
    text = read("docs/commands.md")

    assert [] == [command for command in cli.COMMANDS if f"handoff {command}" not in text]


def test_example_configuration_has_every_default():
    """config.example.toml, uncommented, is the default configuration, key by key."""
    text = re.sub(r"(?m)^# (\w+ = )", r"\1", read("config.example.toml"))

    assert Config().model_dump() == tomllib.loads(text)
    assert {} == {k: v for k, v in tomllib.loads(read("config.example.toml")).items() if v}


def test_every_warning_has_an_anchor():
    """Each anchor that a warning or a finding names is a heading of docs/troubleshooting.md."""
    source = read("daemon/handoffd/api/health_warnings.py")
    codes = re.findall(r"(?:HealthWarning\(|yield )\"([a-z_]+)\"", source)
    anchors = {code.replace("_", "-") for code in codes}
    for path in (REPOSITORY / "client/handoff/doctor").glob("*.py"):
        anchors |= set(re.findall(r"explained\([\"']([a-z-]+)", path.read_text()))
    headings = set(re.findall(r"(?m)^## (.+)$", read("docs/troubleshooting.md")))

    assert anchors == headings


def texts(path) -> list[str]:
    """Return the string literals of a source file, without its docstrings."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    docstrings = {node.value for node in nodes if isinstance(node, ast.Expr)}
    texts = {node for node in nodes if isinstance(node, ast.Constant)} - docstrings
    return [node.value for node in texts if isinstance(node.value, str)]


def test_no_remedy_names_a_file_of_the_checkout():
    """No message names a document or an example that the wheel does not contain."""
    sources = [
        *(REPOSITORY / "daemon").rglob("*.py"),
        *(REPOSITORY / "client/handoff").rglob("*.py"),
    ]
    text = "\n".join(text for path in sources for text in texts(path))
    named = set(re.findall(r"docs/[\w/]+\.md|config\.example\.toml", text))

    assert {"docs/troubleshooting.md"} == named
    assert "docs/troubleshooting.md" in read("pyproject.toml").partition(".force-include]")[2]


@pytest.mark.parametrize(
    "path", sorted((REPOSITORY / "tests").rglob("test_*.py")), ids=lambda p: p.name
)
def test_every_test_states_its_fact(path):
    """Every test has a docstring."""
    silent = [
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]

    assert [] == silent


def test_no_module_is_long():
    """No module has more than 500 lines; in a longer one a seam is hidden."""
    sources = [*(REPOSITORY / "daemon").rglob("*.py"), *(REPOSITORY / "client").rglob("*.py")]

    assert [] == [path.name for path in sources if len(path.read_text().splitlines()) > 500]


@cache
def named_tests(path: str) -> set[str]:
    tree = ast.parse(read(path))
    functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    return {f"{path}::{f.name}" for f in functions if f.name.startswith("test_")}


@pytest.mark.parametrize("document", ["docs/promises.md", "bench/promises.md", "SECURITY.md"])
def test_tests_named_exist(document):
    """Every test file, test and command that a document names exists."""
    text = read(document)
    for name in re.findall(r"`(tests/[\w/]+\.py)`", text):
        assert (REPOSITORY / name).exists(), name
    for name in re.findall(r"`(tests/[^`]+::\w+)`", text):
        assert name in named_tests(name.partition("::")[0]), name
    for target in re.findall(r"`make (\w+)", text):
        assert re.search(rf"(?m)^{target}:", read("Makefile")), target


def test_every_fault_is_a_promise():
    """bench/promises.md has a row for each test of tests/faults."""
    faults = (REPOSITORY / "tests/faults").glob("test_*.py")
    found = {test for path in faults for test in named_tests(f"tests/faults/{path.name}")}

    assert set() == found - set(re.findall(r"\| `(tests/[^`]+)` \|", read("bench/promises.md")))


def test_promises_are_measured():
    """Every row of bench/promises.md has a figure, none from a failed or skipped test."""
    rows = re.findall(r"(?m)^\| .+ \| `([^`]+)` \|(.*)\|$", read("bench/promises.md"))

    assert [] == [proof for proof, figure in rows if not figure.strip() or "**" in figure]
    assert len(rows) > 100


def test_versions_agree():
    """The package's version is the one in pyproject.toml."""
    from handoff import __version__

    assert tomllib.loads(read("pyproject.toml"))["project"]["version"] == __version__
