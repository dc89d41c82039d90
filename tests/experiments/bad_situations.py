"""Bad situations and the line that each is refused with, for `test_bad_input.py`: models, chat files, folders.

A situation makes files in the folder that the command is run in and gives the command. In a line, `{here}`
stands for that folder, `{hash}` for the good config's, and a final … for what a library says in its own words.
"""

import json
import shutil
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import pytest
import yaml

from experiments.config import load
from experiments.sweep_record import sweep_root
from results.lock import SweepLock
from tests.experiments.bad_configs import GOOD

ON_A_MODEL = GOOD.replace("backends: simulated,", "backends: huggingface,").replace(
    "backends:\n  simulated: {fixed_ms: 22}", "model: ./model"
)
ENGLISH = ON_A_MODEL.replace("source: random", "source: english")
CHATS = ON_A_MODEL.replace("source: random", "source: sharegpt, path: chats.json")
LAWS = GOOD[GOOD.index("  arrivals:") : GOOD.index("arrival_rate:")]
TRACE = GOOD.replace(LAWS, "  trace: {path: t.csv}\n  prompts: {source: random}\n")
HEADER, ROW = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n", "2023-11-16 18:15:46.6805900,374,44\r\n"
FORM = 'a list of {"conversations": [{"from": "human", "value": "…"}, …]}'
TEXTS = json.dumps([{"conversations": [{"from": "human", "value": "Why wait?"}] * 80}])  # for 80 requests
A_MODEL = "a model is a folder with config.json and safetensors weights, a Hugging Face id or a preset"
NO_TENSORS = "\x02\0\0\0\0\0\0\0{}"
WEIGHTS = "model.safetensors"
DAMAGED = "it is damaged, or was not written by batchyard"


@dataclass(frozen=True, slots=True)
class Here:
    """The folder that the command is run in, and what situations are made of."""

    folder: Path
    made_sweep: ModuleType
    tiny_model: Callable[[], Path]  # with 512 token ids, a context of 2048 tokens, and no tokenizer
    held: ExitStack  # what lasts as long as the test

    def config(self, text: str = GOOD) -> str:
        """Write the config and give its name."""
        self.write("c.yaml", text)
        return "c.yaml"

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file and the folders above it."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    def sweep(self) -> Path:
        """The folder that the good config's sweep has in `out`."""
        return Path(sweep_root(load(self.config()), "out"))

    def document(self, **changes: Any) -> Path:
        """A sweep.json as the good config's sweep begins with it, changed; `...` leaves a key out."""
        loaded = load(self.config())
        info = {
            "schema_version": 1,
            "name": loaded.name,
            "config": dict(loaded.as_written),
            "config_hash": loaded.config_hash,
            "resolved": {"rates": [1, 4], "durations_s": [20, 20], "dtype": None},
            "measured": {},
            "cells_hash": "0" * 16,
            "workload_hashes": {},
            **changes,
        }
        kept = {key: value for key, value in info.items() if value is not ...}
        self.write(f"{self.sweep()}/sweep.json", json.dumps(kept))
        return self.sweep()


Situation: TypeAlias = Callable[[Here], list[str]]


def on_model(files: Mapping[str, str]) -> Situation:
    """A sweep of a model folder with these files."""

    def make(here: Here) -> list[str]:
        (here.folder / "model").mkdir()
        for name, content in files.items():
            here.write(f"model/{name}", content)
        return ["sweep", here.config(ON_A_MODEL)]

    return make


def on_damaged_model(damage: Callable[[Path], object]) -> Situation:
    """A sweep of a small model after something was done to its folder."""

    def make(here: Here) -> list[str]:
        shutil.copytree(here.tiny_model(), here.folder / "model")
        damage(here.folder / "model")
        return ["sweep", here.config(ON_A_MODEL)]

    return make


def cut_short(folder: Path) -> None:
    """As a copy that was interrupted leaves it."""
    weights = folder / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:1000])


def emptied(folder: Path) -> None:
    """As a disk that was full leaves it."""
    (folder / WEIGHTS).write_bytes(b"")


def a_folder(folder: Path) -> None:
    """A folder where the weights should be."""
    (folder / WEIGHTS).unlink()
    (folder / WEIGHTS).mkdir()


def linked_to_nothing(folder: Path) -> None:
    """As the cache of a hub is after its blobs were removed."""
    (folder / WEIGHTS).unlink()
    (folder / WEIGHTS).symlink_to("gone")


def without_a_shard(folder: Path) -> None:
    """Of two files that an index names one is there."""
    (folder / WEIGHTS).rename(folder / "model-00001-of-00002.safetensors")
    shards = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps({"weight_map": shards}))


def an_adapter(folder: Path) -> None:
    """Weights that belong on top of others."""
    (folder / WEIGHTS).rename(folder / "adapter_model.safetensors")


def configured(**changes: Any) -> Callable[[Path], None]:
    """Its config.json says something else; `...` leaves a key out."""

    def damage(folder: Path) -> None:
        path = folder / "config.json"
        values = {**json.loads(path.read_text()), **changes}
        path.write_text(json.dumps({key: value for key, value in values.items() if value is not ...}))

    return damage


def with_file(name: str, content: str | bytes, text: str) -> Situation:
    """A sweep with one more file in the folder."""

    def make(here: Here) -> list[str]:
        here.write(name, content)
        return ["sweep", here.config(text)]

    return make


def plain(*arguments: str, text: str = GOOD) -> Situation:
    """The command as it is, beside a config."""

    def make(here: Here) -> list[str]:
        here.config(text)
        return list(arguments)

    return make


def begun(*arguments: str, **changes: Any) -> Situation:
    """A sweep that has begun, with some of its sweep.json changed; `SWEEP` is its folder."""

    def make(here: Here) -> list[str]:
        folder = here.document(**changes)
        return [str(folder) if argument == "SWEEP" else argument for argument in arguments]

    return make


def damaged(content: str | bytes, *arguments: str) -> Situation:
    """A sweep whose sweep.json is something else."""

    def make(here: Here) -> list[str]:
        here.write(f"{here.sweep()}/sweep.json", content)
        return [str(here.sweep()) if argument == "SWEEP" else argument for argument in arguments]

    return make


def with_tiny_model(text: str) -> Situation:
    """A sweep of a small model that has no tokenizer."""

    def make(here: Here) -> list[str]:
        (here.folder / "model").symlink_to(here.tiny_model())
        return ["sweep", here.config(text)]

    return make


def into_a_sweep(command: str, below: str, *options: str) -> Situation:
    """A sweep whose results would lie among those of another."""
    return lambda here: [command, "c.yaml", "--results", f"{here.document()}{below}", *options]


def a_record(here: Here) -> list[str]:
    """What a sweep wrote of itself, where a config belongs."""
    return ["sweep", f"{here.document()}/sweep.json"]


def with_tokenizer(text: str, ids: int, chats: str | bytes | None = None) -> Situation:
    """A sweep of a small model whose tokenizer gives ids below `ids`, with a chat file."""

    def make(here: Here) -> list[str]:
        from tokenizers import Tokenizer, models, pre_tokenizers
        from transformers import PreTrainedTokenizerFast

        (here.folder / "model").mkdir()
        for file in here.tiny_model().iterdir():
            (here.folder / "model" / file.name).symlink_to(file)
        tokenizer = Tokenizer(models.WordLevel({"the": 0, "<unk>": ids - 1}, unk_token="<unk>"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(here.folder / "model")
        if chats is not None:
            here.write("chats.json", chats)
        return ["sweep", here.config(text)]

    return make


def held(*more: str) -> Situation:
    """Another driver runs the sweep."""

    def make(here: Here) -> list[str]:
        here.held.enter_context(SweepLock(here.sweep()))
        return ["sweep", "c.yaml", "--results", "out", *more]

    return make


def held_elsewhere(here: Here) -> list[str]:
    """A driver on another machine holds the lock."""
    lock = {"pid": 7, "host": f"not-{socket.gethostname()}", "since": "2026-11-01", "process_started": "1"}
    here.write(f"{here.sweep()}/driver.lock", json.dumps(lock))
    return ["sweep", "c.yaml", "--results", "out"]


def broken_lock(content: str | bytes) -> Situation:
    """A lock that names nobody."""

    def make(here: Here) -> list[str]:
        here.write(f"{here.sweep()}/driver.lock", content)
        return ["sweep", "c.yaml", "--results", "out"]

    return make


def without_vllm(here: Here) -> list[str]:
    """A machine on which vLLM is not installed."""
    here.held.enter_context(pytest.MonkeyPatch.context()).setitem(sys.modules, "vllm", None)
    return ["sweep", here.config(ON_A_MODEL.replace("huggingface", "vllm"))]


def renamed(here: Here) -> list[str]:
    """A sweep's folder under another name."""
    here.document().rename("mine")
    return ["resume", "mine"]


def fresh_on_a_missing_model(here: Here) -> list[str]:
    """The earlier run must stay where it is if the new one cannot begin."""
    here.config(ON_A_MODEL)
    here.write(f"{sweep_root(load('c.yaml'), 'out')}/sweep.json", '{"schema_version": 1}')
    return ["sweep", "c.yaml", "--results", "out", "--fresh"]


def future_attempt(here: Here) -> list[str]:
    """An attempt that a newer program wrote."""
    store = here.made_sweep.make_sweep("made", repeats=1)
    (path, *_) = sorted(Path(store.root).rglob("done.json"))
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": 2}))
    return ["report", "made"]


def folder_as_config(here: Here) -> list[str]:
    """A folder where a file should be."""
    (here.folder / "c.yaml").mkdir()
    return ["sweep", "c.yaml"]


def page_in_a_file(here: Here) -> list[str]:
    """A page whose folder is a file."""
    here.made_sweep.make_sweep("made", repeats=1)
    here.write("file", "")
    return ["report", "made", "-o", "file/page.html"]


def with_trace(rows: str, *changes: tuple[str, str]) -> Situation:
    """A sweep of a trace with these rows."""
    text = TRACE
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return with_file("t.csv", rows, text)


TWO = f"{HEADER}{ROW}2023-11-16 18:15:50.9951690,396,109"

SITUATIONS: dict[str, tuple[Situation, str]] = {
    # traces
    "trace that is not there": (plain("sweep", "c.yaml", text=TRACE), "c.yaml:3: workload.trace.path: t.csv: must be a trace file that can be read, got: No such file or directory"),
    "empty trace": (with_trace(""), "c.yaml:3: workload.trace.path: t.csv:1: must name the columns TIMESTAMP,ContextTokens,GeneratedTokens, got an empty file"),
    "trace without rows": (with_trace(HEADER), "c.yaml:3: workload.trace.path: t.csv: must hold at least 1 row after the header, got none"),
    "trace of other columns": (with_trace(TWO.replace("ContextTokens", "Prompt")), "c.yaml:3: workload.trace.path: t.csv:1: must name the columns TIMESTAMP,ContextTokens,GeneratedTokens, got TIMESTAMP,Prompt,GeneratedTokens"),
    "trace that goes back in time": (with_trace(f"{TWO}\r\n{ROW}"), "c.yaml:3: workload.trace.path: t.csv:4: TIMESTAMP must not be before the row above, 2023-11-16 18:15:50.9951690, got 2023-11-16 18:15:46.6805900"),
    "trace of one moment": (with_trace(HEADER + ROW + ROW), "c.yaml:3: workload.trace.path: t.csv: must hold requests at 2 different times, got 1"),
    "trace with a negative length": (with_trace(TWO.replace("396", "-396")), "c.yaml:3: workload.trace.path: t.csv:3: ContextTokens must be in 0..1048576, got -396"),
    "trace with a length that is no number": (with_trace(TWO.replace("396", "39x")), "c.yaml:3: workload.trace.path: t.csv:3: ContextTokens must be a whole number of tokens, got '39x'"),
    "trace of which no row is chosen": (with_trace(TWO, ("t.csv}", "t.csv, skip_rows: 5}")), "c.yaml:3: workload.trace.path: t.csv: must hold requests at 2 different times among the chosen rows, got 0"),
    "trace with lengths of a law too": (with_trace(TWO, ("arrival_rate", "  output_tokens: {distribution: fixed, tokens: 8}\narrival_rate")), "c.yaml:5: workload.output_tokens: must be left out with trace, which has its own"),
    "trace with arrivals of a process too": (with_trace(TWO, ("arrival_rate", "  arrivals: {process: poisson}\narrival_rate")), "c.yaml:5: workload.arrivals: must be left out with trace, which has its own"),
    "neither a law nor a trace": (plain("sweep", "c.yaml", text=TRACE.replace("  trace: {path: t.csv}\n", "")), "c.yaml:2: workload.prompts.tokens: is missing"),
    "rates and a time scale": (with_trace(TWO, ("t.csv}", "t.csv, time_scale: 2}")), "c.yaml:5: arrival_rate: must be left out with workload.trace.time_scale, which says how fast, got [1, 4]"),
    "time scale of 0": (with_trace(TWO, ("t.csv}", "t.csv, time_scale: 0}")), "c.yaml:3: workload.trace.time_scale: must be above 0, got 0"),
    "time scale with a unit": (with_trace(TWO, ("t.csv}", "t.csv, time_scale: 2x}")), "c.yaml:3: workload.trace.time_scale: must be a number, got '2x'"),
    "time scale with a slip": (with_trace(TWO, ("t.csv}", "t.csv, time_scale: [1, 1e9]}"), ("arrival_rate: [1, 4]\n", "")), "c.yaml:3: workload.trace.time_scale[1]: must be at most 5e+05 requests/s, 10000000 requests a trial, got 2.31772e+08"),
    "cap of no tokens": (with_trace(TWO, ("t.csv}", "t.csv, max_output_tokens: 0}")), "c.yaml:3: workload.trace.max_output_tokens: must be at least 1, got 0"),
    "limit below the longest output of a trace": (with_trace(TWO, ("arrival_rate", "  max_new_tokens: 64\narrival_rate")), "c.yaml:5: workload.max_new_tokens: must be at least the longest output of the trace, 109, got 64"),
    "prompts of a trace beyond the engine's context": (with_trace(TWO.replace("396", "9396")), "c.yaml:2: workload: must fit backends.simulated.context_tokens, 4096, got 9396 prompt + 109 output tokens"),
    # the config file
    "config that is not there": (plain("sweep", "nowhere.yaml"), "nowhere.yaml: cannot be read: No such file or directory"),
    "config that is a folder": (folder_as_config, "c.yaml: cannot be read: Is a directory"),
    # GPUs
    "GPU asked for and absent": (plain("sweep", "c.yaml", text=f"{GOOD}gpus: 64\n"), "c.yaml:15: gpus: must be at most the GPUs that can be used here, 0, got 64; gpus: auto runs on the CPU"),
    # models, and what runs them
    "model folder that is not there": (plain("sweep", "c.yaml", text=ON_A_MODEL), f"c.yaml:11: model: model folder ./model does not exist; {A_MODEL}"),
    "model that is a file": (with_file("model", "GGUF", ON_A_MODEL), f"c.yaml:11: model: model ./model is a file; {A_MODEL}"),
    "hub id that is not here": (plain("sweep", "c.yaml", text=ON_A_MODEL.replace("./model", "nobody/nothing")), "c.yaml:11: model: model nobody/nothing (revision main) is not available: not in the local cache, and the hub is switched off"),
    "model folder without config": (on_model({"model.safetensors": ""}), f"c.yaml:11: model: model ./model has no config.json; {A_MODEL}"),
    "model folder without weights": (on_model({"config.json": "{}"}), f"c.yaml:11: model: model ./model has no weights; {A_MODEL}"),
    "model folder with pickles": (on_model({"config.json": "{}", "pytorch_model.bin": ""}), "c.yaml:11: model: model ./model has only pickled weights (pytorch_model.bin), which may run code; convert them to safetensors"),
    "model config that is no JSON": (on_model({"config.json": "{", "model.safetensors": NO_TENSORS}), "c.yaml:11: model: model ./model has no readable config.json: It looks like the config file at '{here}/model/config.json' is not a valid JSON file."),
    "model config of no known model": (on_model({"config.json": '{"model_type": "lama"}', "model.safetensors": NO_TENSORS}), "c.yaml:11: model: model ./model has no readable config.json: The checkpoint you are trying to load has model type `lama` but…"),
    "model config with a number that is text": (on_damaged_model(configured(vocab_size="x")), "c.yaml:11: model: model ./model has no readable config.json: Validation error for field 'vocab_size': TypeError: …"),
    "weights that are empty": (on_damaged_model(emptied), "c.yaml:11: model: model ./model: model.safetensors is not a whole safetensors file: it has 0 bytes"),
    "weights cut short": (on_damaged_model(cut_short), "c.yaml:11: model: model ./model: model.safetensors is not a whole safetensors file: its header is damaged"),
    "weights that are a folder": (on_damaged_model(a_folder), "c.yaml:11: model: model ./model: model.safetensors cannot be read: Is a directory"),
    "weights that are a link to nothing": (on_damaged_model(linked_to_nothing), "c.yaml:11: model: model ./model: model.safetensors cannot be read: it is a link to gone, which is not there"),
    "weights without a shard": (on_damaged_model(without_a_shard), "c.yaml:11: model: model ./model has no model-00002-of-00002.safetensors, which its model.safetensors.index.json names"),
    "only an adapter": (on_damaged_model(an_adapter), "c.yaml:11: model: model ./model has only an adapter (adapter_model.safetensors); merge it into its base model, and save that"),
    "model that only encodes": (on_damaged_model(configured(model_type="bert", architectures=["BertForMaskedLM"])), "c.yaml:11: model: model ./model must be a causal language model: its config.json says BertForMaskedLM"),
    "model that only encodes, without an architecture": (on_damaged_model(configured(model_type="bert", architectures=...)), "c.yaml:11: model: model ./model must be a causal language model: its config.json says model_type bert"),
    "model that translates": (on_damaged_model(configured(model_type="t5", architectures=["T5ForConditionalGeneration"], num_heads=2)), "c.yaml:11: model: model ./model must be a causal language model: t5 has an encoder and a decoder"),
    # prompts
    "prompts beyond the model's context": (with_tiny_model(ON_A_MODEL.replace("high: 64", "high: 2041")), "c.yaml:2: workload: must fit the context of ./model, 2048 tokens, got 2041 prompt + 8 output tokens"),
    "English for a model without a tokenizer": (with_tiny_model(ENGLISH), "c.yaml:4: workload.prompts: source must be random for a model without a tokenizer, got english"),
    "token ids beyond the vocabulary": (with_tokenizer(ENGLISH, 600), "c.yaml:4: workload.prompts: the tokenizer's ids must be in 0..511, got 599"),
    "token ids of a chat file beyond the vocabulary": (with_tokenizer(CHATS, 600, TEXTS), "c.yaml:4: workload.prompts: the tokenizer's ids must be in 0..511, got 599"),
    "chats that are no JSON": (with_tokenizer(CHATS, 512, "[{"), f"c.yaml:4: workload.prompts: chats.json: must be JSON, {FORM}, got: Expecting property name enclosed in double quotes at line 1, column 3"),
    "chats that are not UTF-8": (with_tokenizer(CHATS, 512, b"\xff[]"), "c.yaml:4: workload.prompts: chats.json: must be UTF-8 text, got byte 0 that is not"),
    "chats that are a mapping": (with_tokenizer(CHATS, 512, "{}"), f"c.yaml:4: workload.prompts: chats.json: must be {FORM}, got a JSON object"),
    "chats without a turn": (with_tokenizer(CHATS, 512, '[{"conversations": []}, 3]'), "c.yaml:4: workload.prompts: chats.json: must hold at least 1 turn from human or user with text, got none in 2 chats"),
    "chats of a model alone": (with_tokenizer(CHATS, 512, '[{"conversations": [{"from": "gpt", "value": "Hi"}]}]'), "c.yaml:4: workload.prompts: chats.json: must hold at least 1 turn from human or user with text, got none in 1 chats"),
    "model whose name ends in a new line": (plain("sweep", "c.yaml", text=ON_A_MODEL.replace("./model", '"nobody/nothing\\n"')), "c.yaml:11: model: model nobody/nothing\\n (revision main) is not available: not in the local cache, and the hub is switched off"),
    "model folder whose name ends in a new line": (plain("sweep", "c.yaml", text=ON_A_MODEL.replace("./model", '"./model\\n"')), f"c.yaml:11: model: model folder ./model\\n does not exist; {A_MODEL}"),
    "vLLM where it is not installed": (without_vllm, "c.yaml:9: strategies[0].backends: vllm is not installed here; where it cannot be (macOS, Arm), continuous runs on huggingface-continuous"),
    # results
    "results in a folder of no name": (plain("sweep", "c.yaml", "--results", ""), "Invalid value for '--results': must name a place, got nothing; see `batchyard sweep --help`"),
    "results that are a file": (plain("sweep", "c.yaml", "--results", "c.yaml"), "{here}/c.yaml/good-{hash}/driver.lock cannot be written: Not a directory; give a folder that can be"),
    "results on no disk": (plain("sweep", "c.yaml", "--results", "/proc/nowhere"), "/proc/nowhere/good-{hash}/driver.lock cannot be written: No such file or directory; give a folder that can be"),
    "results in a bucket with a password": (plain("sweep", "c.yaml", "--results", "s3://key:secret@bucket/sweeps"), "Invalid value for '--results': an address of results must be s3://BUCKET/PREFIX without a user, password or port in it: credentials are taken from the environment (AWS_ACCESS_KEY_ID, …) or their usual files; see `batchyard sweep --help`"),
    "results in no bucket": (plain("sweep", "c.yaml", "--results", "s3://"), "Invalid value for '--results': an address of results must be s3://BUCKET/PREFIX without a user, password or port in it: credentials are taken from the environment (AWS_ACCESS_KEY_ID, …) or their usual files; see `batchyard sweep --help`"),
    "results in a sweep": (into_a_sweep("sweep", ""), "--results may not be in a sweep's folder, got out/good-{hash}, which is in {here}/out/good-{hash}"),
    "results deep in a sweep": (into_a_sweep("sweep", "/cells/more"), "--results may not be in a sweep's folder, got out/good-{hash}/cells/more, which is in {here}/out/good-{hash}"),
    "results in a sweep, only asked": (into_a_sweep("sweep", "", "--dry-run"), "--results may not be in a sweep's folder, got out/good-{hash}, which is in {here}/out/good-{hash}"),
    "a sweep's record as config": (a_record, "out/good-{hash}/sweep.json: is a sweep's record, not a config: `batchyard resume out/good-{hash}` goes on with it"),
    "results with a name that is too long": (plain("sweep", "c.yaml", "--results", "r" * 300), "{here}/{long}/good-{hash}/sweep.json cannot be looked at: File name too long"),
    "lock held": (held(), "{here}/out/good-{hash} is driven by process N on HOST (since WHEN); wait for it or end it first"),
    "lock held, started anew": (held("--fresh"), "{here}/out/good-{hash} is driven by process N on HOST (since WHEN); wait for it or end it first"),
    "lock held on another host": (held_elsewhere, "{here}/out/good-{hash} is driven by process N on HOST (since WHEN); if that has ended, delete {here}/out/good-{hash}/driver.lock"),
    "lock that names nobody": (broken_lock("{"), "{here}/out/good-{hash}/driver.lock names no driver; delete it if no other driver runs"),
    "lock that is no text": (broken_lock(b"\xff\x00"), "{here}/out/good-{hash}/driver.lock names no driver; delete it if no other driver runs"),
    "lock of no process": (broken_lock('{"pid": "x", "host": "h", "since": "", "process_started": ""}'), "{here}/out/good-{hash}/driver.lock names no driver; delete it if no other driver runs"),
    "started anew without its model": (fresh_on_a_missing_model, f"c.yaml:11: model: model folder ./model does not exist; {A_MODEL}"),
    "results of another config": (begun("sweep", "c.yaml", "--results", "out", config_hash="abc"), "out/good-{hash}/sweep.json is of another config (abc, this one is {hash}): move it away, or --fresh starts anew"),
    "results of other cells": (begun("sweep", "c.yaml", "--results", "out"), "c.yaml: the cells of this config are not those that the sweep began with (another version of batchyard with other defaults): go back to that version, or --fresh starts anew"),
    "sweep.json cut short": (damaged('{"schema_version": 1, "na', "sweep", "c.yaml", "--results", "out"), "{here}/out/good-{hash}/sweep.json must be JSON with a schema_version: Unterminated string starting at: line 1 column 23 (char 22)"),
    "sweep.json from the future": (begun("sweep", "c.yaml", "--results", "out", schema_version=9), "{here}/out/good-{hash}/sweep.json has schema version 9, this program reads up to 1: use the newer one"),
    "sweep.json without what was resolved": (begun("sweep", "c.yaml", "--results", "out", resolved=...), f"out/good-{{hash}}/sweep.json: resolved must be a JSON object, has none; {DAMAGED}"),
    "sweep.json with half of what was resolved": (begun("sweep", "c.yaml", "--results", "out", resolved={"rates": [1]}), "out/good-{hash}/sweep.json: resolved must hold rates and durations_s: 'durations_s'"),
    # the command line
    "no such option": (plain("sweep", "c.yaml", "--result", "out"), "No such option: --result (Possible options: --fresh, --results); see `batchyard sweep --help`"),
    "no config": (plain("sweep"), "Missing argument 'config'; see `batchyard sweep --help`"),
}  # fmt: skip

OTHER_COMMANDS: dict[str, tuple[Situation, str]] = {  # than sweep: they cannot be tried dry
    "list of a folder of no name": (
        plain("ls", "--results", ""),
        "Invalid value for '--results': must name a place, got nothing; see `batchyard ls --help`",
    ),
    "report into a file of no name": (
        plain("report", "made", "-o", ""),
        "Invalid value for '-o' / '--output': must name a place, got nothing; see `batchyard report --help`",
    ),
    "simulated results on a server": (
        plain("simulate", "c.yaml", "--results", "ftp://host/sweeps"),
        "Invalid value for '--results': results must lie in a folder or at s3:// or gs://, got ftp://host/sweeps; see `batchyard simulate --help`",
    ),
    "simulated results in a sweep": (
        into_a_sweep("simulate", ""),
        "--results may not be in a sweep's folder, got out/good-{hash}, which is in {here}/out/good-{hash}",
    ),
    "budget of a search in virtual time": (
        plain("capacity", "c.yaml", "--slo", "e2e_p95=1s", "--simulate", "--max-hours", "1"),
        "--max-hours and --max-cost are of what is measured, and not of a simulation",
    ),
    "budget of a search without a price": (
        plain("capacity", "c.yaml", "--slo", "e2e_p95=1s", "--max-cost", "1"),
        "c.yaml: price_per_gpu_hour: is missing: --max-cost needs the price of a GPU's hour",
    ),
    "results of a job below nowhere": (
        plain("submit", "c.yaml", "--results", "sweeps"),
        "--results must be a folder of the head, from / or ~/ on, or an address (s3://BUCKET/PREFIX), got sweeps",
    ),
    "results of a job in a folder of no name": (
        plain("submit", "c.yaml", "--results", ""),
        "--results must be a folder of the head, from / or ~/ on, or an address (s3://BUCKET/PREFIX), got nothing",
    ),
    "results of a job on a server": (
        plain("submit", "c.yaml", "--results", "http://host/sweeps"),
        "--results: results must lie in a folder or at s3:// or gs://, got http://host/sweeps",
    ),
    "results of a job in no bucket": (
        plain("submit", "c.yaml", "--results", "s3://"),
        "--results: an address of results must be s3://BUCKET/PREFIX without a user, password or port in it: credentials are taken from the environment (AWS_ACCESS_KEY_ID, …) or their usual files",
    ),
    "resume of no folder": (
        plain("resume", "nowhere"),
        "nowhere: does not exist; give a sweep's folder (`batchyard ls` lists them)",
    ),
    "resume of a folder that is no sweep": (
        plain("resume", "."),
        ".: holds no sweep.json; give a sweep's folder (`batchyard ls` lists them)",
    ),
    "resume of a name that is too long": (
        plain("resume", "r" * 300),
        "{here}/{long}/sweep.json cannot be looked at: File name too long",
    ),
    "resume of a file": (
        plain("resume", "c.yaml"),
        "c.yaml: is a file; give a sweep's folder (`batchyard ls` lists them)",
    ),
    "resume of a renamed folder": (
        renamed,
        "mine: must be named good-{hash} as its config says; rename it back",
    ),
    "resume without a config": (
        begun("resume", "SWEEP", config=...),
        f"out/good-{{hash}}/sweep.json: config must be a JSON object, has none; {DAMAGED}",
    ),
    "resume of a config that is wrong now": (
        begun("resume", "SWEEP", config={**yaml.safe_load(GOOD), "repeats": 0}),
        "out/good-{hash}/sweep.json: repeats: must be at least 1, got 0",
    ),
    "resume of what is no JSON": (
        damaged(b"\xff\x00", "resume", "SWEEP"),
        "{here}/out/good-{hash}/sweep.json must be JSON with a schema_version: Expecting value: line 1 column 1 (char 0)",
    ),
    "resume of a list": (
        damaged("[]", "resume", "SWEEP"),
        "{here}/out/good-{hash}/sweep.json must be JSON with a schema_version: 'schema_version'",
    ),
    "report of no folder": (
        plain("report", "nowhere"),
        "nowhere: does not exist; give a sweep's folder (`batchyard ls` lists them)",
    ),
    "report of a folder that is no sweep": (
        plain("report", "."),
        ".: holds no sweep.json; give a sweep's folder (`batchyard ls` lists them)",
    ),
    "report of a sweep without a name": (
        begun("report", "SWEEP", name=...),
        f"out/good-{{hash}}/sweep.json: name must be text, has none; {DAMAGED}",
    ),
    "report from the future": (
        begun("report", "SWEEP", schema_version=9),
        "{here}/out/good-{hash}/sweep.json has schema version 9, this program reads up to 1: use the newer one",
    ),
    "report of an attempt from the future": (
        future_attempt,
        "{here}/made/cells/cell-000/attempt-2/done.json has schema version 2, this program reads up to 1: use the newer one",
    ),
    "report into a file": (
        page_in_a_file,
        "file/page.html cannot be written: Not a directory; give a folder that can be",
    ),
    "report with JSON nested too deep": (
        damaged("[" * 100_000, "report", "SWEEP"),
        "{here}/out/good-{hash}/sweep.json must be JSON with a schema_version: maximum recursion depth exceeded…",
    ),
    "no such command": (
        plain("swep", "c.yaml"),
        "No such command 'swep'. Did you mean 'sweep'?; see `batchyard --help`",
    ),
}
