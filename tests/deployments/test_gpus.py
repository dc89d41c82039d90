"""What NVML says of the GPUs that may be used, and which those are."""

from typing import Any

import pytest

from deployments.errors import DeviceError
from deployments.gpus import Gpu, Holder, facts, visible_gpus
from tests.deployments.fake_nvml import GIB, Card, FakeNvml, NVMLError

FIRST, SECOND, THIRD = "GPU-1111-aaaa", "GPU-2222-bbbb", "GPU-2233-cccc"


def three() -> FakeNvml:
    return FakeNvml(Card(FIRST), Card(SECOND, name="Tesla T4", capability=(7, 5)), Card(THIRD))


def split() -> FakeNvml:
    parts = [Card(f"MIG-{k}", name=f"H100 MIG 1g.10gb {k}", total=10 * GIB, is_instance=True) for k in (1, 2)]
    return FakeNvml(Card(FIRST), Card(SECOND, instances=[parts[0], None, parts[1]]))


def visible(nvml: FakeNvml, chosen: str | None = None) -> tuple[Gpu, ...]:
    gpus = visible_gpus(nvml, {} if chosen is None else {"CUDA_VISIBLE_DEVICES": chosen})
    assert nvml.open == 0, "NVML is let go of"
    return gpus


@pytest.mark.parametrize("old", [False, True])
def test_a_gpu_is_described(old: bool) -> None:
    nvml = FakeNvml(Card(FIRST, used=3 * GIB, processes=[(4711, 2 * GIB), (4712, None)]), old=old)
    [gpu] = visible(nvml)
    reserved = GIB // 2 if old else 0  # the first version counts what the driver keeps
    assert gpu == Gpu(
        label="0",
        uuid=FIRST,
        name="NVIDIA H100 80GB HBM3",
        driver="580.65.06",
        capability=(9, 0),
        total_bytes=80 * GIB,
        used_bytes=3 * GIB + reserved,
        free_bytes=77 * GIB - reserved,
        utilisation=17,
        holders=(Holder(pid=4711, used_bytes=2 * GIB), Holder(pid=4712, used_bytes=None)),
        clock_mhz=1335,
        memory_clock_mhz=2619,
        highest_clock_mhz=1980,
    )
    assert facts((gpu,)) == {
        "0": {
            "name": "NVIDIA H100 80GB HBM3",
            "uuid": FIRST,
            "driver": "580.65.06",
            "memory_bytes": 80 * GIB,
            "compute_capability": "9.0",
            "highest_clock_mhz": 1980,
        }
    }


@pytest.mark.parametrize(
    ("chosen", "uuids"),
    [
        (None, [FIRST, SECOND, THIRD]),
        ("0", [FIRST]),
        ("2,0", [THIRD, FIRST]),
        (" 1 , 2 ", [SECOND, THIRD]),
        ("GPU-1111", [FIRST]),
        (f"{THIRD},0", [THIRD, FIRST]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("1,-1,0", [SECOND]),
    ],
)
def test_the_variable_is_heeded_in_its_order(chosen: str | None, uuids: list[str]) -> None:
    assert [gpu.uuid for gpu in visible(three(), chosen)] == uuids


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ("3", "CUDA_VISIBLE_DEVICES must name GPUs of this machine (0, 1, 2), got 3"),
        ("0,7", "got 7"),
        ("GPU-9", "got GPU-9"),
        ("GPU-22", "got GPU-22"),  # two begin so
        ("first", "got first"),
        ("MIG-1", "must name a MIG instance of this machine (0, 1, 2), got MIG-1"),
        (f"0,{FIRST}", f"CUDA_VISIBLE_DEVICES must name each GPU once, got 0,{FIRST}"),
    ],
)
def test_a_gpu_that_is_asked_for_and_absent_is_an_error(chosen: str, said: str) -> None:
    nvml = three()
    with pytest.raises(DeviceError) as caught:
        visible(nvml, chosen)
    assert str(caught.value).endswith(said)
    assert "\n" not in str(caught.value)
    assert nvml.open == 0


def test_a_gpu_is_called_what_every_reader_of_the_variable_understands() -> None:
    assert [gpu.label for gpu in visible(three(), f"GPU-1111,{THIRD}")] == ["0", "2"]
    assert [gpu.label for gpu in visible(split(), "MIG-2,0")] == ["MIG-2", "0"]


def test_what_a_device_does_not_say_is_unknown() -> None:
    [gpu] = visible(FakeNvml(Card(FIRST, silent=True)))
    assert gpu == Gpu(
        label="0",
        uuid=None,
        name="unnamed",
        driver=None,
        capability=None,
        total_bytes=None,
        used_bytes=None,
        free_bytes=None,
        utilisation=None,
        holders=(),
    )


@pytest.mark.parametrize("lost", ["at once", "later"])
def test_a_lost_card_is_an_error_where_it_is_used_and_nothing_where_it_is_left_out(lost: Any) -> None:
    nvml = FakeNvml(Card(FIRST), Card(SECOND, lost=lost), Card(THIRD))
    for chosen in ("0", "2,0", "GPU-1", THIRD):
        assert visible(nvml, chosen)
    for every in (None, "1", "0,1"):
        with pytest.raises(DeviceError, match=r"^GPU 1 cannot be used: GPU is lost; .*_DEVICES=0,2$"):
            visible(nvml, every)
    with pytest.raises(DeviceError, match=r"\(0, 2\), got GPU-2222$"):
        visible(nvml, "GPU-2222")
    assert nvml.open == 0


def test_nvml_that_does_not_answer_is_one_error() -> None:
    class Mute(FakeNvml):
        def nvmlDeviceGetCount(self) -> int:  # noqa: N802
            raise NVMLError("Unknown Error")

    nvml = Mute(Card(FIRST))
    with pytest.raises(DeviceError, match=r"^NVML does not answer: Unknown Error$"):
        visible(nvml)
    assert nvml.open == 0


def test_an_instance_of_a_split_gpu_is_named_by_its_uuid() -> None:
    [gpu, other] = visible(split(), "MIG-2,0")
    assert (gpu.label, gpu.uuid, gpu.name, gpu.total_bytes) == (
        "MIG-2",
        "MIG-2",
        "H100 MIG 1g.10gb 2",
        10 * GIB,
    )
    assert gpu.capability == (9, 0), "the card's: an instance does not say"
    assert gpu.utilisation is None
    assert other.uuid == FIRST


@pytest.mark.parametrize("chosen", [None, "1", "0,1", SECOND])
def test_a_split_gpu_as_a_whole_is_an_error_that_names_the_instances(chosen: str | None) -> None:
    with pytest.raises(
        DeviceError, match=r"is split .MIG.: CUDA_VISIBLE_DEVICES must name .*: MIG-1, MIG-2$"
    ):
        visible(split(), chosen)


def test_without_a_driver_or_a_card_there_are_none() -> None:
    assert visible(FakeNvml(driver=False), "0") == ()
    assert visible(FakeNvml()) == ()
    with pytest.raises(DeviceError, match="it has none"):
        visible(FakeNvml(), "0")
