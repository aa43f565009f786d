"""What models read of the tools, made from their definition: `python -m handoffd.api.schemas`."""

import json
from typing import Any

from pydantic import BaseModel

from handoffd.api.tools import TOOLS, Tool


def described(tool: Tool) -> dict[str, Any]:
    """Return a tool as MCP lists it."""
    return {
        "name": tool.name,
        "description": tool.text,
        "inputSchema": _schema(tool.arguments),
        "outputSchema": _outline(tool.output),
        "annotations": _hints(tool),
    }


def _hints(tool: Tool) -> dict[str, bool]:
    """Return what a tool does to its world; of what only reads, MCP asks no more."""
    if tool.read_only:
        return {"readOnlyHint": True, "openWorldHint": False}
    hints = {"destructiveHint": tool.destructive}
    if tool.idempotent:
        hints["idempotentHint"] = True
    return {**hints, "openWorldHint": False}


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a model's arguments, without what says nothing."""
    schema = model.model_json_schema()
    properties = {}
    for name, found in schema["properties"].items():
        if model.model_fields[name].exclude:
            continue
        # An optional argument may be left out; to say that it may also be null helps nobody.
        kept = {k: v for k, v in found.items() if k not in ("title", "default", "anyOf")}
        properties[name] = {**next(iter(found.get("anyOf", ({},)))), **kept}
    required = {"required": schema["required"]} if schema.get("required") else {}
    return {
        "type": "object",
        "properties": properties,
        **required,
        "additionalProperties": False,
    }


def _outline(model: type[BaseModel]) -> dict[str, Any]:
    """Return the outline of a result: its parts and their kinds; what lies deeper shows itself."""
    schema = model.model_json_schema()
    properties = {name: _kind(found) for name, found in schema["properties"].items()}
    return {"type": "object", "properties": properties, "required": schema["required"]}


def _kind(found: dict[str, Any]) -> dict[str, Any]:
    if found.get("type") == "array":
        return {"type": "array"}
    return {"type": found.get("type", "object")}


if __name__ == "__main__":
    print(json.dumps([described(tool) for tool in TOOLS.values()], indent=1, ensure_ascii=False))  # noqa: T201
