"""Weights that are not there, or not whole, are noticed from their headers."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from deployments.errors import ModelError
from deployments.weights import check_names, check_weights, count_parameters

WHOLE = "model.safetensors"
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def sharded(folder: Path) -> None:
    for place, shard in enumerate(SHARDS):
        save_file({f"layer.{place}": np.zeros((2, 3), np.float16)}, folder / shard)
    weight_map = {f"layer.{place}": shard for place, shard in enumerate(SHARDS)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))


def whole(folder: Path) -> None:
    save_file({"a": np.zeros((3, 5), np.float16), "b": np.zeros(7, np.float32)}, folder / WHOLE)


def cut(name: str, bytes_left: int) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = folder / name
        path.write_bytes(path.read_bytes()[:bytes_left])

    return damage


def lost(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def written(name: str, content: bytes) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (folder / name).write_bytes(content)

    return damage


def linked_to_nothing(folder: Path) -> None:
    (folder / WHOLE).unlink()
    (folder / WHOLE).symlink_to("blobs/gone")


def a_folder(folder: Path) -> None:
    (folder / WHOLE).unlink()
    (folder / WHOLE).mkdir()


def header(text: bytes) -> bytes:
    return len(text).to_bytes(8, "little") + text


@pytest.mark.parametrize("make", [whole, sharded])
def test_whole_weights_pass(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path)
    check_weights(tmp_path, "m")


def test_parameters_are_counted(tmp_path: Path) -> None:
    whole(tmp_path)
    assert count_parameters(tmp_path / WHOLE, "m") == 22


@pytest.mark.parametrize(
    ("make", "damage", "said"),
    [
        (whole, cut(WHOLE, 0), "model.safetensors is not a whole safetensors file: it has 0 bytes"),
        (whole, cut(WHOLE, 20), "model.safetensors is not a whole safetensors file: its header is damaged"),
        (whole, cut(WHOLE, -1), r"model\.safetensors .*: it should have (\d+) bytes, and has \d+"),
        (whole, written(WHOLE, b"\xff" * 64), "its first bytes announce a header of 18446744073709551615 bytes"),
        (whole, written(WHOLE, header(b"[]")), "its header is damaged"),
        (whole, written(WHOLE, header(b'{"a": {"shape": [2]}}')), "its header is damaged"),
        (whole, written(WHOLE, header(b"[" * 100_000)), "its header is damaged"),
        (whole, written(WHOLE, header(b'"\xff"')), "its header is damaged"),
        (whole, linked_to_nothing, "model.safetensors cannot be read: it is a link to blobs/gone, which is not there"),
        (whole, a_folder, "model.safetensors cannot be read: Is a directory"),
        (sharded, lost(SHARDS[1]), f"model m has no {SHARDS[1]}, which its model.safetensors.index.json names"),
        (sharded, cut(SHARDS[0], -1), f"{SHARDS[0]} is not a whole safetensors file: it should have"),
        (sharded, written(f"{WHOLE}.index.json", b"{"), "must be JSON with a weight_map from tensors to files"),
        (sharded, written(f"{WHOLE}.index.json", b"{}"), "must be JSON with a weight_map from tensors to files"),
        (sharded, written(f"{WHOLE}.index.json", b'{"weight_map": {"a": 1}}'), "must be JSON with a weight_map"),
    ],
)  # fmt: skip
def test_damaged_weights_are_refused_in_one_line(
    tmp_path: Path, make: Callable[[Path], None], damage: Callable[[Path], None], said: str
) -> None:
    make(tmp_path)
    damage(tmp_path)
    with pytest.raises(ModelError, match=said) as refused:
        check_weights(tmp_path, "m")
    assert "model m" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"adapter_model.safetensors"}, "only an adapter"),
        ({"consolidated.safetensors"}, "consolidated.safetensors, but neither model.safetensors nor"),
        (set(SHARDS), f"{SHARDS[0]}, but neither"),
    ],
)
def test_safetensors_that_are_no_models_weights_are_refused(files: set[str], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        check_names("m", files, "wanted")
