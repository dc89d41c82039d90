"""Chat files in ShareGPT's JSON form: what people asked, for prompts.

`[{"conversations": [{"from": "human", "value": "…"}, {"from": "gpt", "value": "…"}, …]}, …]`

Published files hold conversations that are empty or cut, and turns by others than the two speakers; what is
not a person's text is passed over, and only a file without any such text is an error.
"""

import json
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from workloads.errors import WorkloadError

USERS = frozenset({"human", "user"})
FORM = 'a list of {"conversations": [{"from": "human", "value": "…"}, …]}'


def read_user_turns(path: str) -> list[str]:
    """Every text that a person wrote, in the file's order; WorkloadError names the file and what is wrong."""
    return [text for chat in read_conversations(path) for text in chat]


def read_conversations(path: str) -> tuple[tuple[str, ...], ...]:
    """The same by conversation, without those that hold none; a file is read anew only if it changes."""
    try:
        about = os.stat(path)
    except OSError as exc:
        raise WorkloadError(f"{path}: must be a chat file that can be read, got: {exc.strerror}") from exc
    return _read(path, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=1)
def _read(path: str, _changed_ns: int, _bytes: int) -> tuple[tuple[str, ...], ...]:
    try:
        chats = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as exc:
        raise WorkloadError(f"{path}: must be a chat file that can be read, got: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise WorkloadError(f"{path}: must be UTF-8 text, got byte {exc.start} that is not") from exc
    except json.JSONDecodeError as exc:
        raise WorkloadError(
            f"{path}: must be JSON, {FORM}, got: {exc.msg} at line {exc.lineno}, column {exc.colno}"
        ) from exc
    except RecursionError as exc:
        raise WorkloadError(f"{path}: must be {FORM}, got JSON nested too deep") from exc
    if not isinstance(chats, list):
        raise WorkloadError(f"{path}: must be {FORM}, got a JSON {_kind(chats)}")
    conversations = tuple(filter(None, (tuple(_user_turns(chat)) for chat in chats)))
    if not conversations:
        raise WorkloadError(
            f"{path}: must hold at least 1 turn from human or user with text, got none in {len(chats)} chats"
        )
    return conversations


def _user_turns(chat: Any) -> Iterator[str]:
    turns = chat.get("conversations") if isinstance(chat, dict) else None
    for turn in turns if isinstance(turns, list) else []:
        if not isinstance(turn, dict) or turn.get("from") not in USERS:
            continue
        text = turn.get("value")
        if isinstance(text, str) and text.strip():
            yield text.strip()


def _kind(value: Any) -> str:
    kinds = {dict: "object", str: "string", bool: "boolean", int: "number", float: "number"}
    return kinds.get(type(value), "null")
