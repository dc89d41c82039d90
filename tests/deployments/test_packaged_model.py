"""The cache of the packaged model: whole or made anew, by one process at a time, with nothing left behind."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from deployments import packaged_model
from deployments.errors import ModelError
from deployments.models import ModelSpec, locate, on_disk

MODEL = ModelSpec(name=packaged_model.NAME)
ROOT = Path(__file__).parents[2]


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_model: Path) -> Path:
    """Where the model will be; its conversion writes a tiny model, and is told of as a real one."""
    monkeypatch.setenv("BATCHYARD_CACHE", str(tmp_path))
    monkeypatch.setattr(packaged_model, "_packaged", lambda: (tmp_path / packaged_model.GGUF, "9.9"))

    def convert(weights: Path, target: Path) -> None:
        shutil.copytree(tiny_model, target, dirs_exist_ok=True)
        for name in packaged_model.DOCUMENTS:
            if not (target / name).exists():
                (target / name).write_text("{}")

    monkeypatch.setattr(packaged_model, "_convert", convert)
    return tmp_path / "smollm2-135m-9.9"


def cut(name: str) -> Callable[[Path], None]:
    return lambda folder: os.truncate(folder / name, (folder / name).stat().st_size // 2)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "weights cut short": cut("model.safetensors"),
    "no weights": lambda folder: (folder / "model.safetensors").unlink(),
    "config cut short": cut("config.json"),
    "an empty tokenizer": lambda folder: (folder / "tokenizer.json").write_bytes(b""),
    "no tokenizer": lambda folder: (folder / "tokenizer.json").unlink(),
    "an empty folder": lambda folder: [path.unlink() for path in folder.iterdir()] and None,
}


def test_it_is_converted_once(cached: Path):
    told: list[str] = []
    assert on_disk(MODEL) is None
    assert locate(MODEL, told.append) == locate(MODEL, told.append) == str(cached)
    assert told == [f"converting smollm2-135m once (about 20 s) into {cached}"]
    assert on_disk(MODEL) == ModelSpec(name=str(cached))


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_not_whole_is_made_anew(cached: Path, damage: str):
    locate(MODEL)
    whole = {path.name: path.read_bytes() for path in cached.iterdir()}
    DAMAGES[damage](cached)
    assert on_disk(MODEL) is None
    told: list[str] = []
    locate(MODEL, told.append)
    assert told == [
        f"converting smollm2-135m once (about 20 s) into {cached}, whose files are not whole",
    ]
    assert {path.name: path.read_bytes() for path in cached.iterdir()} == whole
    assert {path.name for path in cached.parent.iterdir()} == {cached.name, f".{cached.name}-lock"}


KILLED = """
import os, signal, sys
from pathlib import Path
from deployments import packaged_model

def convert(weights, target):
    (target / "model.safetensors").write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)

packaged_model._packaged = lambda: (Path("weights"), "9.9")
packaged_model._convert = convert
packaged_model.folder()
"""


def test_a_killed_conversion_leaves_nothing_that_counts(cached: Path):
    killed = subprocess.run([sys.executable, "-c", KILLED], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not cached.exists()
    (left,) = (path for path in cached.parent.iterdir() if path.is_dir())
    locate(MODEL)
    assert on_disk(MODEL) is not None
    assert not left.exists()


def test_of_two_that_find_none_one_converts_and_the_other_waits(
    cached: Path, monkeypatch: pytest.MonkeyPatch
):
    convert, begun, waiting = packaged_model._convert, threading.Event(), threading.Event()
    conversions: list[Path] = []

    def slowly(weights: Path, target: Path) -> None:
        conversions.append(target)
        begun.set()
        assert waiting.wait(60)
        convert(weights, target)

    monkeypatch.setattr(packaged_model, "_convert", slowly)
    first = threading.Thread(target=packaged_model.folder)
    first.start()
    assert begun.wait(60)
    told: list[str] = []

    def tell(text: str) -> None:
        told.append(text)
        waiting.set()

    assert packaged_model.folder(tell) == cached
    first.join()
    assert told == [f"waiting for another process that converts smollm2-135m into {cached}"]
    assert len(conversions) == 1


def test_a_failed_conversion_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    package = tmp_path / "package"
    package.mkdir()
    (package / packaged_model.GGUF).write_bytes(b"not a model")
    monkeypatch.setenv("BATCHYARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(packaged_model, "_packaged", lambda: (package / packaged_model.GGUF, "9.9"))
    told: list[str] = []
    with pytest.raises(ModelError, match="cannot be converted"):
        locate(MODEL, told.append)
    assert len(told) == 1
    assert not [path for path in (tmp_path / "cache").iterdir() if path.is_dir()]


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(packaged_model, "DISTRIBUTION", "no-such-distribution")
    with pytest.raises(ModelError, match="needs the package no-such-distribution"):
        locate(MODEL)
