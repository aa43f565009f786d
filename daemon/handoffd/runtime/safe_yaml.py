"""Checks of foreign YAML before it is loaded. Pure.

libyaml builds values by recursion on the C stack, and tens of thousands of brackets overflow that
stack. Its parser does not recurse.
"""

import yaml

from handoff.common.safe_parsing import DEPTH_MAX


class YamlBombError(ValueError):
    """A text is not loaded; the message gives the reason."""


def refuse_bombs(text: str | bytes, depth_max: int = DEPTH_MAX, *, tags: bool = True) -> None:
    """Raise YamlBombError if a text has aliases, nests too deeply, or has tags without `tags`."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise YamlBombError("aliases are not accepted")
        if not tags and getattr(event, "tag", None) not in (None, "!"):
            raise YamlBombError("tags are not accepted")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > depth_max:
                raise YamlBombError("it is nested too deeply")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
