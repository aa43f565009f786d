"""Make tools.json, which models read, from the tools' definition.

Run: `python -m handoffd.api.schemas`
"""

import json
from typing import Any

from pydantic import BaseModel

from handoffd.api.tools import TOOLS, Tool


def mcp_tool(tool: Tool) -> dict[str, Any]:
    """Return a tool in the form of MCP's list of tools."""
    return {
        "name": tool.name,
        "description": tool.text,
        "inputSchema": _schema(tool.arguments),
        "outputSchema": _outline(tool.output),
        "annotations": _hints(tool),
    }


def _hints(tool: Tool) -> dict[str, bool]:
    """Return MCP's hints about a tool's effects; MCP needs no more for a tool that only reads."""
    if tool.read_only:
        return {"readOnlyHint": True, "openWorldHint": False}
    hints = {"destructiveHint": tool.destructive}
    if tool.idempotent:
        hints["idempotentHint"] = True
    return {**hints, "openWorldHint": False}


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a model's arguments, without keys that carry no information."""
    schema = model.model_json_schema()
    properties = {}
    for name, found in schema["properties"].items():
        if model.model_fields[name].exclude:
            continue
        # An optional argument may be left out; that it may also be null is no useful information.
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
    """Return the outline of a result: its top-level parts and their types, without inner parts."""
    schema = model.model_json_schema()
    properties = {name: _kind(found) for name, found in schema["properties"].items()}
    return {"type": "object", "properties": properties, "required": schema["required"]}


def _kind(found: dict[str, Any]) -> dict[str, Any]:
    if found.get("type") == "array":
        return {"type": "array"}
    return {"type": found.get("type", "object")}


if __name__ == "__main__":
    print(json.dumps([mcp_tool(tool) for tool in TOOLS.values()], indent=1, ensure_ascii=False))  # noqa: T201
