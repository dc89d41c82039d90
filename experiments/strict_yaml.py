"""Reading one YAML file, stricter than YAML itself: what is read is what a person sees.

A key written twice and a key that is not text are errors. Numbers are decimal: `1e-3` is one (YAML 1.1 reads
text), while `017`, `1:30` and `1_000` are text, not the numbers 15, 90 and 1000. Dates are text.
"""

import json
import re
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

import yaml

from experiments.document import Document, Location, in_one_line, key_path, shown
from experiments.errors import ConfigError

MOST_VALUES = 100_000  # aliases of aliases make any number of them in a few lines
MOST_DIGITS = 18  # of a whole number: what 64 bits hold

TAG = "tag:yaml.org,2002:"
PLAIN = {f"{TAG}{kind}" for kind in ("map", "seq", "str", "int", "float", "bool", "null")}
NUMBERS = {
    f"{TAG}int": r"[-+]?(?:0|[1-9]\d*)$",
    f"{TAG}float": r"[-+]?(?:(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\.(?:inf|Inf|INF))$|\.(?:nan|NaN|NAN)$",
}
FORMS = {**NUMBERS, f"{TAG}bool": r"(?i:yes|no|true|false|on|off)$"}


def read(path: Path) -> Document:
    """Read a YAML file. ConfigError if it cannot be read or is not one mapping of text keys."""
    source = in_one_line(str(path))
    try:
        with path.open(encoding="utf-8-sig") as file:
            values, lines = _parse(file.read(), source)
    except OSError as exc:
        raise ConfigError(f"{source}: cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{source}: must be a text file in UTF-8, byte {exc.start} is not") from exc
    except yaml.reader.ReaderError as exc:
        what = f"character {exc.position} is U+{int(exc.character):04X}"
        raise ConfigError(f"{source}: must be a text file: {what}") from exc
    except yaml.MarkedYAMLError as exc:
        raise ConfigError(f"{source}{_marked(exc)}") from exc
    except RecursionError as exc:
        raise ConfigError(f"{source}: is nested too deep for a config") from exc
    if values is None:
        raise ConfigError(f"{source}: is empty; must be a mapping of keys such as name and strategies")
    if not isinstance(values, dict):
        text = f"must be a mapping of keys such as name and strategies, got {shown(values)}"
        raise ConfigError(f"{source}: {text}")
    return Document(source=source, values=json.loads(json.dumps(values, default=str)), lines=lines)


def _parse(text: str, source: str) -> tuple[Any, dict[Location, int]]:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None, {}
        lines: dict[Location, int] = {}
        for count, (location, line) in enumerate(_lines(node, (), (), source)):
            if count == MOST_VALUES:
                raise ConfigError(f"{source}:{line}: must hold at most {MOST_VALUES} values, aliases counted")
            lines[location] = line
        return loader.construct_document(node), lines
    finally:
        loader.dispose()


class _Loader(yaml.SafeLoader):
    """SafeLoader with decimal numbers and without dates."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in forms if tag not in (*NUMBERS, f"{TAG}timestamp")]
    for first, forms in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _tag, _form in NUMBERS.items():
    _Loader.add_implicit_resolver(_tag, re.compile(_form), list("-+.0123456789"))


def _marked(exc: yaml.MarkedYAMLError) -> str:
    mark = exc.problem_mark
    if exc.context == "while scanning a simple key":  # what follows is where the parser noticed
        mark = exc.context_mark
    line = mark.line + 1 if mark else None
    text = f"{exc.problem}"
    if exc.context and exc.context.startswith("expected"):
        text = f"{exc.context}, {text}"
    elif exc.context_mark and exc.context_mark.line + 1 != line:
        text = f"{text} ({exc.context} that begins on line {exc.context_mark.line + 1})"
    if "'\\t'" in text:
        before = mark.buffer[mark.pointer - mark.column : mark.pointer] if mark and mark.buffer else ""
        text = f"{text}; {'write a space' if before.strip() else 'indent with spaces'}, not a tab"
    return f"{f':{line}' if line else ''}: not valid YAML: {text}"


def _lines(
    node: yaml.Node, location: Location, above: tuple[yaml.Node, ...], source: str
) -> Iterator[tuple[Location, int]]:
    """Location and line (from 1) of every value below `node`; ConfigError for one that is no good."""
    here = f"{source}:{node.start_mark.line + 1}"
    if node in above:
        raise ConfigError(f"{here}: an alias may not contain itself")
    if node.tag not in PLAIN:
        what = f"must be a plain value, got one with the tag {node.tag.replace(TAG, '!!')}"
        raise ConfigError(f"{here}: {key_path(location) or 'the config'}: {what}")
    above = (*above, node)
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield (*location, index), item.start_mark.line + 1
            yield from _lines(item, (*location, index), above, source)
    elif isinstance(node, yaml.MappingNode):
        for place, key, value in _pairs(node, location, source):
            yield place, key.start_mark.line + 1
            yield from _lines(value, place, above, source)
    elif problem := _scalar_problem(node):
        raise ConfigError(f"{here}: {key_path(location)}: {problem}")


def _pairs(
    node: yaml.MappingNode, location: Location, source: str
) -> Iterator[tuple[Location, yaml.Node, yaml.Node]]:
    seen: dict[Hashable, int] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if key.tag == f"{TAG}merge":
            continue
        if key.tag != f"{TAG}str":
            got = f"{key.value!r} (quote it)" if isinstance(key, yaml.ScalarNode) else "a list or mapping"
            raise ConfigError(f"{source}:{line}: a key must be text, got {got}")
        if problem := _scalar_problem(key):
            raise ConfigError(f"{source}:{line}: a key {problem}")
        place = (*location, key.value)
        if key.value in seen:
            text = f"written twice, first on line {seen[key.value]}"
            raise ConfigError(f"{source}:{line}: {key_path(place)}: {text}")
        seen[key.value] = line
        yield place, key, value


def _scalar_problem(node: yaml.Node) -> str | None:
    """What would be no value of JSON, or no number that anything here could hold."""
    text = str(node.value)
    if not re.match(FORMS.get(node.tag, ""), text):
        return f"must be a plain value, got {text!r} with the tag {node.tag.replace(TAG, '!!')}"
    if node.tag == f"{TAG}int" and len(text.lstrip("+-")) > MOST_DIGITS:
        return f"must be a number of at most {MOST_DIGITS} digits, got one of {len(text.lstrip('+-'))}"
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        return f"must be text, got half a surrogate pair in {text!r}"
    return None
