"""The weights of a model folder, looked at by their safetensors headers: milliseconds, whatever their size.

A file is 8 bytes of little-endian length, a JSON header of that length with the shape and the place of every
tensor, and the tensors. Its size follows from the header, so that a file that was cut short is noticed
without reading it (huggingface/safetensors, README, "Format").
"""

import json
import math
from collections.abc import Collection, Iterator
from pathlib import Path

from deployments.errors import ModelError
from results.errors import one_line

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"  # what transformers and vLLM both load
ADAPTER = "adapter_model.safetensors"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
LONGEST_HEADER_BYTES = 100_000_000  # the format's own limit
LENGTH_BYTES = 8


def check_names(name: str, files: Collection[str], wanted: str) -> None:
    """ModelError unless files of these names can be a model's weights; `wanted` says what would be right."""
    if WHOLE in files or INDEX in files:
        return
    if ADAPTER in files:
        text = f"only an adapter ({ADAPTER}); merge it into its base model, and save that"
        raise ModelError(f"model {name} has {text}")
    if others := sorted(file for file in files if file.endswith(".safetensors")):
        text = f"{others[0]}, but neither {WHOLE} nor {INDEX}, which name the weights"
        raise ModelError(f"model {name} has {text}; {wanted}")
    if pickles := sorted(file for file in files if file.endswith(PICKLES)):
        why = f"only pickled weights ({pickles[0]}), which may run code"
        raise ModelError(f"model {name} has {why}; convert them to safetensors")
    raise ModelError(f"model {name} has no weights; {wanted}")


def check_weights(folder: Path, name: str) -> None:
    """ModelError, in one line, unless every weight file of the model is there and whole."""
    whole = folder / WHOLE
    for file in [whole] if whole.is_symlink() or whole.exists() else _shards(folder, name):
        if not file.is_symlink() and not file.exists():
            raise ModelError(f"model {name} has no {file.name}, which its {INDEX} names")
        count_parameters(file, name)


def count_parameters(file: Path, name: str) -> int:
    """How many there are in a weight file of model `name`. ModelError, in one line, if it is damaged."""
    try:
        return sum(_sizes(file))
    except OSError as error:
        why = error.strerror or one_line(error)
        if file.is_symlink() and not file.exists():
            why = f"it is a link to {file.readlink()}, which is not there"
        raise ModelError(f"model {name}: {file.name} cannot be read: {why}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = one_line(error) if isinstance(error, _Damage) else "its header is damaged"
        raise ModelError(f"model {name}: {file.name} is not a whole safetensors file: {why}") from error


class _Damage(ValueError):
    """What is wrong with a file, in words."""


def _sizes(file: Path) -> Iterator[int]:
    """Of every tensor, once the file is known to be whole."""
    with file.open("rb") as stream:
        length = stream.read(LENGTH_BYTES)
        size = file.stat().st_size
        if len(length) < LENGTH_BYTES:
            raise _Damage(f"it has {size} bytes")
        header_bytes = int.from_bytes(length, "little")
        if header_bytes > LONGEST_HEADER_BYTES:
            raise _Damage(f"its first bytes announce a header of {header_bytes} bytes")
        text = stream.read(header_bytes)
    tensors = [value for key, value in json.loads(text).items() if key != "__metadata__"]
    end = max((int(tensor["data_offsets"][1]) for tensor in tensors), default=0)
    expected = LENGTH_BYTES + header_bytes + end
    if size != expected:
        raise _Damage(f"it should have {expected} bytes, and has {size}")
    yield from (math.prod(tensor["shape"]) for tensor in tensors)


def _shards(folder: Path, name: str) -> list[Path]:
    try:
        named = json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"].values()
        return [folder / shard for shard in sorted({Path(file).name for file in named})]
    except OSError as error:
        raise ModelError(f"model {name}: {INDEX} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        text = f"{INDEX} must be JSON with a weight_map from tensors to files"
        raise ModelError(f"model {name}: {text}") from error
