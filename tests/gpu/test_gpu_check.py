"""The checks for a GPU, on the CPU where that makes sense: that they hold, and that they can fail."""

from pathlib import Path
from typing import Any

import pytest

import tests.gpu.agreement
import tests.gpu.check
import tests.gpu.device_checks
import tests.gpu.engine_checks
from deployments.gpus import visible_gpus
from tests.deployments.fake_nvml import GIB, Card, FakeNvml
from tests.gpu.check import before_cuda, checks, main, new_table, run
from tests.gpu.device_checks import dtype, free, nvml, torch_agrees
from tests.gpu.outcome import Failed, require


def results(table: Any) -> dict[str, tuple[str, str]]:
    names, found, figures, _ = ([*column.cells] for column in table.columns)
    return dict(zip(names, zip(found, figures, strict=True), strict=True))


@pytest.mark.model
@pytest.mark.parametrize("backend", ["huggingface", "huggingface-continuous"])
async def test_every_check_of_an_engine_holds_on_the_cpu(tiny_model: Path, backend: str) -> None:
    table = new_table("cpu")
    assert await run(checks(tiny_model, "cpu", [backend]), table) == 0, results(table)
    found = results(table)
    assert {result for result, _ in found.values()} == {"[green]holds[/]"}
    assert len(found) == (6 if backend == "huggingface" else 5)
    assert found[f"{backend}: the CPU's tokens"][1].startswith("77 tokens on cpu")


@pytest.mark.model
async def test_other_tokens_and_an_unknown_out_of_memory_are_found(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tests.gpu.agreement.shortfalls
    monkeypatch.setattr(
        tests.gpu.engine_checks,
        "shortfalls",
        lambda folder, asked, got: real(folder, asked, [[0] * len(one) for one in got]),
    )
    monkeypatch.setattr("deployments.backends.padded_generation.is_out_of_memory", lambda _: False)
    table = new_table("cpu")
    todo = [check for check in checks(tiny_model, "cpu", ["huggingface"]) if "dtype" not in check[0]]
    assert await run(todo, table) == 2
    found = results(table)
    assert "Failed: check-0: token 1 is" in found["huggingface: the CPU's tokens"][1]
    assert "nothing was said" in found["huggingface: out of memory"][1]
    assert found["huggingface: leaves nothing"][0] == "[green]holds[/]"


async def test_a_check_that_fails_is_a_row_and_the_next_are_run() -> None:
    async def holds() -> str:
        return "[42]"

    async def fails() -> str:
        require(False, "41")
        return ""

    async def breaks() -> str:
        raise ZeroDivisionError("by nothing\nat all")

    table = new_table("cpu")
    assert await run([("one", holds), ("two", fails), ("three", breaks), ("four", holds)], table) == 2
    assert results(table) == {
        "one": ("[green]holds[/]", "\\[42]"),
        "two": ("[red]FAILS[/]", "Failed: 41"),
        "three": ("[red]FAILS[/]", "ZeroDivisionError: by nothing"),
        "four": ("[green]holds[/]", "\\[42]"),
    }


def machine(monkeypatch: pytest.MonkeyPatch, *cards: Card) -> None:
    fake = FakeNvml(*cards)
    for module in (tests.gpu.check, tests.gpu.device_checks):
        monkeypatch.setattr(module, "visible_gpus", lambda: visible_gpus(fake, {}))


async def test_the_device_is_described_and_must_be_free(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, Card("GPU-1", used=GIB))
    assert await nvml() == "NVIDIA H100 80GB HBM3, 80.0 GiB, driver 580.65.06, 17 % busy"
    assert await free() == "79.0 GiB free"
    with pytest.raises(Failed, match="sees no CUDA device"):
        await torch_agrees()
    machine(monkeypatch, Card("GPU-1", silent=True))
    assert await nvml() == "unnamed, ? GiB, driver ?, ? % busy"
    assert await free() == "? GiB free"
    machine(monkeypatch, Card("GPU-1", used=50 * GIB))
    with pytest.raises(Failed, match="is taken"):
        await free()
    machine(monkeypatch)
    with pytest.raises(Failed, match="no GPU"):
        await nvml()


async def test_a_dtype_that_does_not_compute_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tests.gpu.device_checks, "pick_dtype", lambda _: "float16")
    assert (await dtype("cpu")).startswith("float16, off by ")
    monkeypatch.setattr(tests.gpu.device_checks, "pick_dtype", lambda _: "float8_e4m3fn")
    with pytest.raises((Failed, RuntimeError)):
        await dtype("cpu")


def test_a_sweep_comes_before_this_process_has_a_cuda_context(tiny_model: Path) -> None:
    first = [name for name, _ in before_cuda(tiny_model, "cuda")]
    then = [name for name, _ in checks(tiny_model, "cuda", ["huggingface"])]
    assert first == ["NVML sees a GPU", "nobody else is on it", "a small sweep"]
    assert then[:2] == ["torch sees the same", "auto picks a dtype"]


@pytest.mark.parametrize("where", ["no GPU", "no such GPU"])
def test_without_a_gpu_it_says_so_in_one_line_and_exits_with_2(
    where: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = FakeNvml(driver=False) if where == "no GPU" else FakeNvml(Card("GPU-1"))
    monkeypatch.setattr(
        tests.gpu.check, "visible_gpus", lambda: visible_gpus(fake, {"CUDA_VISIBLE_DEVICES": "5"})
    )
    monkeypatch.setattr("sys.argv", ["gpu-check"])
    assert main() == 2
    said = capsys.readouterr()
    assert said.out == ""
    [line] = said.err.splitlines()
    assert line.startswith("gpu-check: ")
    assert (
        "no NVIDIA GPU is visible" if where == "no GPU" else "must name GPUs of this machine (0), got 5"
    ) in line
