"""What a running sweep opens to others, and what it leaves in files: no port without a key, and no secret."""

import ipaddress
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import psutil
import pytest
from click.testing import Result

from tests.experiments.command_process import CommandProcess
from tests.soak.kills import replicas

pytestmark = [pytest.mark.ray, pytest.mark.fault]  # of the length of those, if not of their kind

CALL = "/ray.serve.ASGIService/HandleRequest"  # whose argument is a pickle: it must not get as far
SECRETS = {
    "HF_TOKEN": "hf_marker0123456789",
    "HUGGING_FACE_HUB_TOKEN": "hf_marker9876543210",
    "AWS_SECRET_ACCESS_KEY": "aws-marker-secret-key",
    "AWS_SESSION_TOKEN": "aws-marker-session-token",
    "RAY_AUTH_TOKEN": "0123456789abcdef-marker-ray",
    "DATABASE_PASSWORD": "marker-password",
}


def listening(pid: int) -> Iterator[tuple[psutil.Process, str, int]]:
    """Process, address and port of all that a driver and its descendants listen on."""
    driver = psutil.Process(pid)
    for process in (driver, *driver.children(recursive=True)):
        try:
            for one in process.net_connections("inet"):
                if one.status == psutil.CONN_LISTEN:
                    yield process, one.laddr.ip, one.laddr.port
        except psutil.NoSuchProcess:
            continue


def is_loopback(text: str) -> bool:
    """Also of an address of the old kind written in the new one."""
    address = ipaddress.ip_address(text)
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def refusal(port: int, method: str) -> str:
    """How a gRPC server answers a call without a key."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel, pytest.raises(grpc.RpcError) as error:
        channel.unary_unary(method)(b"", timeout=10)
    code: grpc.StatusCode = error.value.code()  # type: ignore[attr-defined]
    return str(code.name)


def test_it_listens_on_loopback_and_writes_no_secret(
    started: Callable[..., CommandProcess],
    short_sweep: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    for name, secret in SECRETS.items():
        monkeypatch.setenv(name, secret)
    naive = {"strategy": "naive", "backends": "simulated", "max_batch_size": 2}
    config, results = short_sweep(arrival_rate=[10], strategies=[naive]), tmp_path / "results"
    driver = started("sweep", config, "--results", results)
    beyond: dict[int, str] = {}

    def looked() -> bool:
        found = list(listening(driver.process.pid))
        beyond.update({port: who.name() for who, address, port in found if not is_loopback(address)})
        return bool(found and replicas(driver.process.pid) and list(results.glob("*/cells/*/*")))

    driver.wait_for(lambda: looked() and beyond)
    assert len(beyond) == 1, beyond
    [(port, who)] = beyond.items()
    assert "replica" in who.lower()
    assert refusal(port, CALL) == "UNAUTHENTICATED"
    driver.wait_for(lambda: looked() and list(results.glob("*/cells/*/*/done.json")))
    assert len(beyond) == 1, beyond
    code, said, told = driver.end()
    assert code == 0, told
    files = {
        str(path.relative_to(results)): path.read_bytes() for path in results.rglob("*") if path.is_file()
    }
    assert any(name.endswith("report.html") for name in files)
    files |= {"standard output": said.encode(), "standard error": told.encode()}
    leaks = [
        (name, secret)
        for name, content in files.items()
        for secret in SECRETS.values()
        if secret.encode() in content
    ]
    assert leaks == []


@pytest.mark.parametrize(
    "address",
    [
        "s3://key:marker-secret@bucket/sweeps",
        "s3://bucket/sweeps?secret_key=marker-secret",
        "s3://bucket/sweeps?endpoint_override=key:marker-secret@127.0.0.1:9000",
    ],
)
def test_the_password_of_a_store_is_not_repeated(
    batchyard: Callable[..., Result], short_sweep: Callable[..., Path], address: str
) -> None:
    result = batchyard("sweep", short_sweep(), "--results", address)
    assert result.exit_code == 2
    assert "must be s3://BUCKET/PREFIX without a user, password" in result.stderr
    assert "marker-secret" not in result.output + os.fspath(Path.cwd())
