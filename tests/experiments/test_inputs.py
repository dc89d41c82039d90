"""The files of a workload: other content is another sweep, and few texts are told."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from experiments.config import SweepConfig, load, parse

TRACE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,9,4\n2023-11-16 18:15:48.68,7,{last}\n"
)
FIXED = {"distribution": "fixed", "tokens": 8}


def chats(*texts: str) -> str:
    return json.dumps([{"conversations": [{"from": "human", "value": text}]} for text in texts])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def written(here: Path, config_values: Callable[..., dict[str, Any]]) -> Callable[..., SweepConfig]:
    """A config, as a file, whose workload reads files."""

    def write(workload: dict[str, Any], **changes: Any) -> SweepConfig:
        (here / "c.yaml").write_text(yaml.safe_dump(config_values(workload=workload, **changes)))
        return load("c.yaml")

    return write


FILES = {
    "chats.json": (
        {"prompts": {"source": "sharegpt", "path": "chats.json", "tokens": FIXED}, "output_tokens": FIXED},
        "workload.prompts.path",
        [chats("Why wait?"), chats("Why not?")],
    ),
    "trace.csv": (
        {"prompts": {"source": "english"}, "trace": {"path": "trace.csv"}},
        "workload.trace.path",
        [TRACE.format(last=3), TRACE.format(last=4)],
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_complete_sweep_is_not_called_complete_after_its_file_has_changed(
    here: Path,
    written: Callable[..., SweepConfig],
    begun_sweep: Callable[..., Path],
    batchyard: Callable[..., Result],
    name: str,
) -> None:
    workload, key, contents = FILES[name]
    (here / name).write_text(contents[0])
    folder = begun_sweep(written(workload), here / "out", done=28)
    dry = ("sweep", "c.yaml", "--results", "out", "--dry-run")
    assert "This sweep is complete" in batchyard(*dry).stdout

    (here / name).write_text(contents[1])
    changed = f"{key}: {name} has changed since the sweep began: put it back, or `sweep --fresh` starts anew"
    for command, source in (
        (dry, "c.yaml:"),
        (dry[:-1], "c.yaml:"),
        (("resume", folder), f"{folder}/sweep.json: "),
    ):
        refused = batchyard(*command)
        assert refused.exit_code == 2
        assert refused.stdout == ""
        last = refused.stderr.splitlines()[-1]
        assert last.startswith(f"error: {source}")
        assert last.endswith(changed)
    assert changed in batchyard("status", folder).stderr
    assert batchyard(*dry, "--fresh").exit_code == 0

    info = json.loads((folder / "sweep.json").read_text())
    del info["input_hashes"]  # as an earlier version wrote it
    (folder / "sweep.json").write_text(json.dumps(info))
    assert "This sweep is complete" in batchyard(*dry).stdout


@pytest.mark.parametrize(
    ("rate", "duration_s", "texts", "told"),
    [
        ([1, 4], 20, 1, "holds 1 texts by people (conversations: 1) for 80 requests of a trial"),
        ([1, 4], 20, 79, "holds 79 texts by people (conversations: 79) for 80 requests of a trial"),
        ([1, 4], 20, 80, None),
        (
            "auto",
            "auto",
            39,
            "holds 39 texts by people (conversations: 39) for at least 40 requests of a trial",
        ),
        ("auto", "auto", 40, None),
    ],
)
def test_a_chat_file_with_fewer_texts_than_requests_is_told(
    here: Path,
    config_values: Callable[..., dict[str, Any]],
    rate: Any,
    duration_s: Any,
    texts: int,
    told: str | None,
) -> None:
    (here / "chats.json").write_text(chats(*(f"Why {number}?" for number in range(texts))))
    workload = FILES["chats.json"][0]
    config = parse(config_values(workload=workload, arrival_rate=rate, duration_s=duration_s))
    expected = [f"workload.prompts.path: chats.json {told}: their prompts repeat text"] if told else []
    assert config.warnings == expected
