"""Models are found, or refused in one line; nothing heavy is imported for reading a config."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import deployments.gpus
from deployments import packaged_model
from deployments.errors import ModelError
from deployments.gpus import visible_gpus
from deployments.models import PRESETS, ModelSpec, encoder, gpu_dtype, locate, pick_dtype, resolve
from tests.deployments.fake_nvml import Card, FakeNvml

ROOT = Path(__file__).parents[2]


def test_reading_a_spec_imports_no_engine() -> None:
    heavy = "{'torch', 'transformers', 'vllm', 'ray', 'huggingface_hub'}"
    code = f"import sys, deployments.models, deployments.backends.registry; print({heavy} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"


@pytest.mark.parametrize("name", sorted(set(PRESETS) - {"smollm2-135m"}))
def test_a_hub_preset_pins_dtype_and_commit(name: str) -> None:
    spec = resolve(ModelSpec(name=name))
    assert spec.name.count("/") == 1
    assert spec.dtype != "auto"
    assert spec.revision is not None
    assert len(bytes.fromhex(spec.revision)) == 20


def test_what_is_written_wins_over_the_preset() -> None:
    written = ModelSpec(name="mistral-7b", dtype="float32", revision="main", trust_remote_code=True)
    spec = resolve(written)
    assert spec.name == "mistralai/Mistral-7B-Instruct-v0.3"
    assert (spec.dtype, spec.revision, spec.trust_remote_code) == ("float32", "main", True)


def test_a_name_that_is_no_preset_stays_as_written() -> None:
    spec = ModelSpec(name="somebody/some-model")
    assert resolve(spec) is spec


def test_a_folder_with_safetensors_is_located(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = model_folder(tmp_path, "config.json")
    save_weights(folder / "model.safetensors")
    assert locate(ModelSpec(name=str(folder))) == str(folder)
    monkeypatch.chdir(tmp_path)
    assert locate(ModelSpec(name="model")) == str(folder), "a relative folder is made absolute"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (("model.safetensors",), "has no config.json"),
        (("config.json",), "has no weights; a model is a folder with config.json and safetensors weights"),
        (("config.json", "pytorch_model.bin"), r"only pickled weights \(pytorch_model\.bin\)"),
    ],
    ids=["no config", "no weights", "pickle only"],
)
def test_an_incomplete_folder_is_refused_in_one_line(
    tmp_path: Path, files: tuple[str, ...], said: str
) -> None:
    folder = model_folder(tmp_path, *files)
    with pytest.raises(ModelError, match=said) as refused:
        locate(ModelSpec(name=str(folder)))
    assert str(folder) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["./nowhere", "/nowhere/at/all", "some/deep/folder"])
def test_an_unknown_folder_is_refused(name: str) -> None:
    with pytest.raises(ModelError, match=f"model folder {name} does not exist"):
        locate(ModelSpec(name=name))


@pytest.mark.parametrize("name", ["nobody/no-such-model", "llama-2-13b", "not a name!"])
def test_an_id_that_is_not_here_is_refused_offline_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelError, match="is not available: not in the local cache") as refused:
        locate(ModelSpec(name=name))
    assert "\n" not in str(refused.value)


def test_a_cached_id_is_located_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    commit = "0" * 40
    snapshot = tmp_path / "models--some--model" / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").touch()
    spec = ModelSpec(name="some/model", revision=commit)
    with pytest.raises(ModelError, match="has no weights"):
        locate(spec)
    (snapshot / "model.safetensors").touch()
    with pytest.raises(ModelError, match="is not a whole safetensors file: it has 0 bytes"):
        locate(spec)
    save_weights(snapshot / "model.safetensors")
    assert locate(spec) == "some/model"


@pytest.mark.model
def test_a_folder_without_tokenizer_has_a_vocabulary_but_no_encoder(tiny_model: Path) -> None:
    assert encoder(ModelSpec(name=str(tiny_model))) == (None, 512)


@pytest.mark.model
def test_text_becomes_ids_without_special_tokens(tiny_model: Path, tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = {"<s>": 0, "<unk>": 1, "wait": 2, "for": 3, "four": 4}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    for file in tiny_model.iterdir():
        (tmp_path / file.name).symlink_to(file)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>").save_pretrained(tmp_path)
    encode, vocabulary = encoder(ModelSpec(name=str(tmp_path)))
    assert encode is not None
    assert encode("wait for four") == [2, 3, 4]
    assert vocabulary == 512


def test_auto_is_bfloat16_only_where_the_cpu_computes_in_it() -> None:
    flags = set(Path("/proc/cpuinfo").read_text().split())
    computes = bool(flags & {"avx512_bf16", "amx_bf16"})
    assert pick_dtype("cpu") == ("bfloat16" if computes else "float32")


@pytest.mark.parametrize(
    ("capability", "dtype"),
    [
        ((7, 0), "float16"),
        ((7, 5), "float16"),
        ((8, 0), "bfloat16"),
        ((8, 9), "bfloat16"),
        ((12, 0), "bfloat16"),
    ],
)
def test_auto_on_a_gpu_is_bfloat16_where_it_computes_in_it(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], dtype: str
) -> None:
    nvml = FakeNvml(Card("GPU-1", capability=capability))
    monkeypatch.setattr(deployments.gpus, "visible_gpus", lambda: visible_gpus(nvml, {}))
    assert pick_dtype("cuda") == gpu_dtype(capability) == dtype


def test_auto_is_what_the_weakest_of_several_gpus_computes_in(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml(Card("GPU-1"), Card("GPU-2", capability=(7, 5)), Card("GPU-3"))
    monkeypatch.setattr(deployments.gpus, "visible_gpus", lambda: visible_gpus(nvml, {}))
    assert pick_dtype("cuda") == "float16"
    monkeypatch.setattr(
        deployments.gpus, "visible_gpus", lambda: visible_gpus(nvml, {"CUDA_VISIBLE_DEVICES": "0,2"})
    )
    assert pick_dtype("cuda") == "bfloat16"


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaged_model, "DISTRIBUTION", "no-such-distribution")
    with pytest.raises(ModelError, match="needs the package no-such-distribution"):
        locate(ModelSpec(name="smollm2-135m"))


@pytest.mark.model
def test_the_packaged_model_is_converted_once_and_encodes() -> None:
    """Uses the cache of whoever runs the tests, so that the conversion is paid once."""
    spec = ModelSpec(name="smollm2-135m")
    folder = Path(locate(spec))
    assert json.loads((folder / "config.json").read_text())["num_hidden_layers"] == 30
    told: list[str] = []
    assert locate(spec, told.append) == str(folder)
    assert told == []
    encode, vocabulary = encoder(spec)
    assert encode is not None
    assert encode("The capital of France is") == [504, 3575, 282, 4649, 314]
    assert vocabulary == 49_152


def save_weights(path: Path) -> None:
    save_file({"a": np.zeros((2, 3), np.float16)}, path)


def model_folder(tmp_path: Path, *files: str) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in files:
        (folder / name).touch()
    return folder
