"""Models: a Hugging Face id, a local folder or a preset, with dtype and revision.

Both engines load what `locate` answers. Weights are safetensors only, because a pickle may run code;
custom model code stays off unless the spec asks for it. torch and transformers are imported in the
functions that need them: reading a config must stay cheap.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from deployments import packaged_model
from deployments.architecture import check_causal
from deployments.errors import DeviceError, ModelError
from deployments.weights import check_names, check_weights
from results.errors import one_line

Dtype: TypeAlias = Literal["auto", "float32", "bfloat16", "float16"]
Encode: TypeAlias = Callable[[str], list[int]]

BFLOAT16_FROM = (8, 0)  # compute capability


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """Which weights, in which precision. `auto` is probed when the model loads, and recorded."""

    name: str  # preset, Hugging Face id or folder, as written
    dtype: Dtype = "auto"
    revision: str | None = None
    trust_remote_code: bool = False


PRESETS: dict[str, ModelSpec] = {
    packaged_model.NAME: ModelSpec(name=packaged_model.NAME),
    "tinyllama-1.1b": ModelSpec(
        name="TinyLlama/TinyLlama-1.1B-Chat-v1.0",
        dtype="bfloat16",
        revision="fe8a4ea1ffedaf415f4da2f062534de366a451e6",
    ),
    "mistral-7b": ModelSpec(
        name="mistralai/Mistral-7B-Instruct-v0.3",
        dtype="bfloat16",
        revision="c170c708c41dac9275d15a8fff4eca08d52bab71",
    ),
    "llama-2-13b": ModelSpec(
        name="meta-llama/Llama-2-13b-hf",
        dtype="float16",
        revision="5c31dfb671ce7cfe2d7bb7c04375e44c55e815b1",
    ),
}


WANTED = "a model is a folder with config.json and safetensors weights, a Hugging Face id or a preset"


def resolve(spec: ModelSpec) -> ModelSpec:
    """The spec with a preset's name, dtype and revision filled in where it leaves them open."""
    preset = PRESETS.get(spec.name)
    if preset is None:
        return spec
    dtype = preset.dtype if spec.dtype == "auto" else spec.dtype
    return replace(spec, name=preset.name, dtype=dtype, revision=spec.revision or preset.revision)


def locate(spec: ModelSpec, notify: Callable[[str], None] | None = None) -> str:
    """A folder or a hub id that transformers and vLLM load; weights of a hub id are not fetched here.

    The packaged preset is converted on first use (about 20 s), which `notify` is told of. ModelError,
    in one line, if there is no such model, or its folder has no safetensors weights that are whole.
    """
    spec = resolve(spec)
    if spec.name == packaged_model.NAME:
        return str(packaged_model.folder(notify))
    if (folder := _written_folder(spec)) is not None:
        return folder
    _check_folder(spec.name, _hub_files(spec))
    return spec.name


def on_disk(spec: ModelSpec) -> ModelSpec | None:
    """The model under its folder's name, if all of it is on this machine: no hub is asked, nothing converted.

    ModelError, as in `locate`, where there can be no such model.
    """
    spec = resolve(spec)
    if spec.name == packaged_model.NAME:
        converted = packaged_model.converted()
        return None if converted is None else replace(spec, name=str(converted))
    if _written_folder(spec) is not None:
        return spec
    from huggingface_hub import snapshot_download

    try:
        cached = snapshot_download(spec.name, revision=spec.revision or "main", local_files_only=True)
        return replace(spec, name=locate(ModelSpec(name=cached)), revision=None)
    except Exception:  # noqa: BLE001 - whatever is missing, the hub may have it
        return None


def _written_folder(spec: ModelSpec) -> str | None:
    """Of a model that is named by its folder; None for a hub id. ModelError as in `locate`."""
    folder = Path(spec.name).expanduser()
    if folder.is_dir():
        _check_folder(spec.name, {path.name for path in folder.iterdir()})
        check_weights(folder, spec.name)
        return str(folder.resolve())
    if folder.is_file():
        raise ModelError(f"model {spec.name} is a file; {WANTED}")
    if spec.name.startswith((".", "/", "~")) or spec.name.count("/") > 1:
        raise ModelError(f"model folder {spec.name} does not exist; {WANTED}")
    return None


def context_tokens(spec: ModelSpec) -> int | None:
    """The longest prompt + output that the model takes, None if its config does not say.

    ModelError as `locate`, and if it is no causal language model.
    """
    from transformers import AutoConfig

    source, spec = locate(spec), resolve(spec)
    try:
        config = AutoConfig.from_pretrained(
            source, revision=spec.revision, trust_remote_code=spec.trust_remote_code
        )
    except Exception as exc:  # whatever a config.json can make transformers stumble over
        raise ModelError(f"model {spec.name} has no readable config.json: {one_line(exc)}") from exc
    check_causal(spec.name, config)
    limit = getattr(config, "max_position_embeddings", None)
    return limit if isinstance(limit, int) and limit > 0 else None


def pick_dtype(device: str) -> Dtype:
    """What `auto` means on this device ("cuda" or "cpu"): bfloat16 where the hardware computes in it.

    A GPU without it gets float16; of several the weakest decides, because a sweep has one dtype. A CPU needs
    AVX512-BF16 or AMX; emulated bfloat16 is slower than float32, which every other CPU gets.
    """
    if device.startswith("cuda"):
        return gpu_dtype(_capability())
    try:
        flags = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return "float32"
    return "bfloat16" if flags & {"avx512_bf16", "amx_bf16"} else "float32"


def weakest(dtypes: Sequence[Dtype]) -> Dtype:
    """The one of several devices' that all of them compute in at least as fast as in the others."""
    return min(dtypes, key=("float32", "float16", "bfloat16").index)


def gpu_dtype(capability: tuple[int, int]) -> Dtype:
    """What `auto` means on a GPU of this compute capability: bfloat16 from 8.0 (Ampere) on."""
    return "bfloat16" if capability >= BFLOAT16_FROM else "float16"


def _capability() -> tuple[int, int]:
    """Of the weakest visible GPU; from NVML if it says, because asking torch takes memory on the GPU."""
    from deployments.gpus import visible_gpus

    told = [gpu.capability for gpu in visible_gpus()]
    known = [capability for capability in told if capability is not None]
    if known and len(known) == len(told):
        return min(known)
    import torch

    every = range(torch.cuda.device_count())
    if not every:
        raise DeviceError("Ray counts a GPU on this node, and CUDA sees none")
    major, minor = min(torch.cuda.get_device_capability(index) for index in every)
    return int(major), int(minor)


def encoder(spec: ModelSpec) -> tuple[Encode | None, int]:
    """Text to ids without special tokens, and the vocabulary size (ids are below it).

    The first is None for a folder without a tokenizer. ModelError as in `locate`.
    """
    from transformers import AutoConfig, AutoTokenizer

    source, spec = locate(spec), resolve(spec)
    options = {"revision": spec.revision or "main", "trust_remote_code": spec.trust_remote_code}
    with_tokenizer = not Path(source).is_dir() or any(Path(source).glob("tokenizer*"))
    try:
        config = AutoConfig.from_pretrained(source, **options)
        tokenizer: Any = AutoTokenizer.from_pretrained(source, **options) if with_tokenizer else None
        vocabulary = int(config.get_text_config().vocab_size)
    except Exception as exc:  # the tokenizer's library raises plain exceptions
        raise ModelError(f"model {spec.name}: its tokenizer cannot be read: {one_line(exc)}") from exc
    if tokenizer is None:
        return None, vocabulary

    def encode(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    return encode, vocabulary


def _check_folder(name: str, files: set[str]) -> None:
    if "config.json" not in files:
        raise ModelError(f"model {name} has no config.json; {WANTED}")
    check_names(name, files, WANTED)


def _hub_files(spec: ModelSpec) -> set[str]:
    """The file names of a hub id: from the hub, or from the local cache when the hub is out of reach."""
    from huggingface_hub import HfApi, constants, snapshot_download
    from huggingface_hub.utils import logging as hub_logging

    hub_logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # what it would say of its tries is in the error
    revision = spec.revision or "main"
    try:
        if not constants.HF_HUB_OFFLINE:
            return set(HfApi().list_repo_files(spec.name, revision=revision))
        cached = snapshot_download(spec.name, revision=revision, local_files_only=True)
    except Exception as exc:  # the hub's client lets errors of its HTTP library through
        why = (
            "not in the local cache, and the hub is switched off"
            if constants.HF_HUB_OFFLINE
            else one_line(exc)
        )
        raise ModelError(f"model {spec.name} (revision {revision}) is not available: {why}") from exc
    files = {path.name for path in Path(cached).iterdir()}
    _check_folder(spec.name, files)
    check_weights(Path(cached), spec.name)
    return files
