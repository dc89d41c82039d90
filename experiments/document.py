"""One YAML file as plain values, with the line on which each of them stands.

Stricter than YAML itself: a key written twice and a key that is not text are errors, and `1e-3` is a
number (YAML 1.1 reads it as text). Problems become lines of the form `file:line: key path: text`.
"""

import json
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from experiments.errors import ConfigError

Location: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong at one place of a document."""

    location: Location
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The values of a file (or of a mapping made in code, which has no lines)."""

    source: str
    values: Mapping[str, Any]
    lines: Mapping[Location, int] = field(default_factory=dict)

    def error(self, problems: Sequence[Problem]) -> ConfigError:
        """One line per problem, in order of the document."""
        placed = sorted(problems, key=lambda problem: self._line(problem.location) or 0)
        return ConfigError("\n".join(self._text(problem) for problem in placed))

    def _text(self, problem: Problem) -> str:
        line, path = self._line(problem.location), key_path(problem.location)
        where = self.source if line is None else f"{self.source}:{line}"
        return f"{where}: {path}: {problem.text}" if path else f"{where}: {problem.text}"

    def _line(self, location: Location) -> int | None:
        """Of the value itself, or of what it should stand in."""
        above = (location[:length] for length in range(len(location), 0, -1))
        return next((self.lines[place] for place in above if place in self.lines), None)


def key_path(location: Location) -> str:
    """`strategies[1].max_wait_ms` for ("strategies", 1, "max_wait_ms")."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return "".join(parts).removeprefix(".")


def read(path: Path) -> Document:
    """Read a YAML file. ConfigError if it cannot be read or is not one mapping of text keys."""
    source = str(path)
    try:
        with path.open(encoding="utf-8") as file:
            loader = _Loader(file)
            try:
                node = loader.get_single_node()
                lines = dict(_lines(node, (), (), source)) if node else {}
                values = loader.construct_document(node) if node else None
            finally:
                loader.dispose()
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "not a text file in UTF-8"
        raise ConfigError(f"{source}: cannot be read: {reason}") from exc
    except yaml.MarkedYAMLError as exc:
        at = f":{exc.problem_mark.line + 1}" if exc.problem_mark else ""
        raise ConfigError(f"{source}{at}: not valid YAML: {exc.problem}") from exc
    except yaml.YAMLError as exc:
        raise ConfigError(f"{source}: not valid YAML: {' '.join(str(exc).split())}") from exc
    if not isinstance(values, dict):
        raise ConfigError(f"{source}: must be a mapping of keys such as name and strategies, got {values!r}")
    return Document(source=source, values=json.loads(json.dumps(values, default=str)), lines=lines)


class _Loader(yaml.SafeLoader):
    """SafeLoader that knows 1e-3 as a number."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(?:\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def _lines(
    node: yaml.Node, location: Location, above: tuple[yaml.Node, ...], source: str
) -> Iterator[tuple[Location, int]]:
    """Location and line (from 1) of every value below `node`; ConfigError for a key that is no good."""
    if node in above:
        raise ConfigError(f"{source}:{node.start_mark.line + 1}: an alias may not contain itself")
    above = (*above, node)
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield (*location, index), item.start_mark.line + 1
            yield from _lines(item, (*location, index), above, source)
    elif isinstance(node, yaml.MappingNode):
        seen: dict[Hashable, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            if key.tag != "tag:yaml.org,2002:str":
                raise ConfigError(f"{source}:{line}: a key must be text, got {key.value!r} (quote it)")
            here = (*location, key.value)
            if key.value in seen:
                text = f"written twice, first on line {seen[key.value]}"
                raise ConfigError(f"{source}:{line}: {key_path(here)}: {text}")
            seen[key.value] = line
            yield here, line
            yield from _lines(value, here, above, source)
