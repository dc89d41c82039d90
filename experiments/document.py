"""Plain values with the line on which each of them stands, and how what is wrong with one is said.

Problems become lines of the form `file:line: key path: text`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from experiments.errors import ConfigError

Location: TypeAlias = tuple[str | int, ...]

LONGEST_SHOWN = 80  # characters of a value in a complaint


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

    def at(self, location: Location) -> Any:
        """The value at a place; None where there is none."""
        value: Any = self.values
        for part in location:
            held = isinstance(value, Mapping) and part in value
            value = value[part] if held or isinstance(value, list) else None
        return value

    def error(self, problems: Sequence[Problem]) -> ConfigError:
        """One line per problem, in order of the document."""
        placed = sorted(problems, key=lambda problem: self._line(problem.location) or 0)
        return ConfigError("\n".join(self.text(problem) for problem in placed))

    def text(self, problem: Problem) -> str:
        """The line for one problem."""
        line, path = self._line(problem.location), key_path(problem.location)
        where = self.source if line is None else f"{self.source}:{line}"
        return in_one_line(f"{where}: {path}: {problem.text}" if path else f"{where}: {problem.text}")

    def _line(self, location: Location) -> int | None:
        """Of the value itself, or of what it should stand in."""
        above = (location[:length] for length in range(len(location), 0, -1))
        return next((self.lines[place] for place in above if place in self.lines), None)


def key_path(location: Location) -> str:
    """`strategies[1].max_wait_ms` for ("strategies", 1, "max_wait_ms")."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return "".join(parts).removeprefix(".")


def in_one_line(text: str) -> str:
    """With what a name may hold and a line or a terminal may not, as Python writes it: \\n for a new line."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def shown(value: object) -> str:
    """A value in one line, as YAML has it where Python calls it otherwise, and cut where it is long."""
    names = {None: "null", True: "true", False: "false"}
    text = names[value] if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
