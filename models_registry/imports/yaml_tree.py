"""YAML as plain values, with the line of each key. Pure, and bounded in what it builds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from sys import float_info
from typing import Any

import yaml

from models_registry.errors import ImportRefused

LONGEST = 256 << 10
"""Characters: PyYAML reads about 100 KB a second."""
MOST_VALUES = 50_000
"""An alias counts as often as it is used: a few lines can stand for millions of values."""
DEEPEST = 30

_SURROGATE = re.compile(r"[\ud800-\udfff]")

Path = tuple[str, ...]


@dataclass(slots=True)
class Tree:
    """A document's value; `lines` tells by the path of a key where it stands, from 1 on."""

    value: Any = None
    lines: dict[Path, int] = field(default_factory=dict)

    def line(self, *path: str) -> int:
        """Where `path` stands, or the nearest key around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def is_number(value: object) -> bool:
    """A finite one that a float can hold: neither a switch, nor `.inf`, nor 400 digits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= float_info.max


def read_yaml(text: str) -> Tree:
    """Raises ImportRefused, with the line, for what is not YAML, is too large, or says a key
    twice."""
    if len(text) > LONGEST:
        raise ImportRefused(f"the file is longer than {LONGEST} characters")
    try:
        return _read(yaml.SafeLoader(text.removeprefix("\ufeff")))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ImportRefused(f"{where}{error.problem or error}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise ImportRefused(f"this is no YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise ImportRefused("it is nested too deeply") from error


def _read(loader: yaml.SafeLoader) -> Tree:
    try:
        node = loader.get_single_node()
        reading = _Reading(loader)
        if node is not None:
            reading.tree.value = reading.value(node, ())
        return reading.tree
    finally:
        loader.dispose()


class _Reading:
    def __init__(self, loader: yaml.SafeLoader) -> None:
        self.tree = Tree()
        self._loader = loader
        self._values = 0

    def value(self, node: yaml.Node, path: Path) -> Any:
        line = node.start_mark.line + 1
        self._values += 1
        if self._values > MOST_VALUES:
            raise ImportRefused(f"line {line}: the file holds more than {MOST_VALUES} values")
        if len(path) > DEEPEST:
            raise ImportRefused(f"line {line}: this is nested more than {DEEPEST} deep")
        match node:
            case yaml.MappingNode(tag="tag:yaml.org,2002:map"):
                return self._mapping(node, path)
            case yaml.SequenceNode(tag="tag:yaml.org,2002:seq"):
                return [self.value(each, (*path, str(at))) for at, each in enumerate(node.value)]
            case yaml.ScalarNode():
                if _SURROGATE.search(node.value):
                    raise ImportRefused(f"line {line}: this holds half a surrogate pair")
                return self._loader.construct_object(node)
            case _:
                raise ImportRefused(f"line {line}: {node.tag} is not taken")

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        """Its own keys count above those of what it merges with `<<`."""
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag == "tag:yaml.org,2002:merge":
                merged = {**self._merged(value_node, path), **merged}
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                raise ImportRefused(f"line {line}: a key must be a word")
            if _SURROGATE.search(key_node.value):
                raise ImportRefused(f"line {line}: this holds half a surrogate pair")
            key = key_node.value  # as it is written: `1.50` and `on` are names here
            if key in own:
                raise ImportRefused(f"line {line}: {key} stands here a second time")
            self.tree.lines[*path, key] = line
            own[key] = self.value(value_node, (*path, key))
        return {**merged, **own}

    def _merged(self, node: yaml.Node, path: Path) -> Mapping[str, Any]:
        found = self.value(node, path)
        several = found if isinstance(found, list) else [found]
        merged: dict[str, Any] = {}
        for each in several:
            if not isinstance(each, dict):
                raise ImportRefused(f"line {node.start_mark.line + 1}: << merges mappings only")
            merged = {**each, **merged}
        return merged
