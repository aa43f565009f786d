"""The surfaces that others rely on do not change by accident.

`surfaces.txt` lists them. A change on purpose is a change of that file:
`.venv-test/bin/python tests/contract/test_surfaces.py > tests/contract/surfaces.txt`
"""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from handoff import command_tree
from handoff.common import errors
from handoffd.api import registry, tools
from handoffd.config import Config
from handoffd.store import schema, state
from handoffd.store.database import Schema, migrate

RECORDED = Path(__file__).with_name("surfaces.txt")


def surfaces() -> Iterator[str]:
    """Yield one line per command, exit code, method, setting, tool and column."""
    for program in ("handoff", "handoffd"):
        for command in command_tree.program(program).walk():
            options = ("|".join(option.flags) for option in command.options)
            operands = (operand.value for operand in command.operands)
            yield f"command {' '.join([command.name, *operands, *options])}"
    for name, value in sorted(vars(errors).items()):
        if name.startswith("EXIT_"):
            yield f"exit code {name} = {value}"
    for name in registry.NAMES:
        yield f"method {name} {described(registry.method(name).params)}"
    for section, field in Config.model_fields.items():
        yield f"setting [{section}] {described(field.annotation)}"
    for name, tool in tools.TOOLS.items():
        yield f"tool {name} {described(tool.arguments)}"
    yield from (f"core.db {line}" for line in columns(schema.SCHEMA))
    yield from (f"state.db {line}" for line in columns(state.SCHEMA))


def described(model: type[BaseModel]) -> str:
    return " ".join(
        name if field.is_required() else f"{name}={field.get_default(call_default_factory=True)!r}"
        for name, field in model.model_fields.items()
    )


def columns(tables: Schema) -> Iterator[str]:
    with sqlite3.connect(":memory:", isolation_level=None) as db:
        migrate(db, "", tables)
        names = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        for (name,) in names.fetchall():
            found = db.execute(f"PRAGMA table_info({name})").fetchall()
            yield f"{tables.newest} {name} {' '.join(row[1] for row in found)}"


def test_surfaces():
    """Commands, flags, exit codes, methods, settings, tools and columns are as recorded."""
    assert RECORDED.read_text().splitlines() == list(surfaces())


if __name__ == "__main__":
    print("\n".join(surfaces()))
