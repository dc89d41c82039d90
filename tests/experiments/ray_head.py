"""`ray start --head` with its dashboard, in a process of its own: what a laptop submits jobs to."""

import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BIN = Path(sys.executable).parent
PORTS = (
    "port",
    "dashboard-port",
    "dashboard-agent-listen-port",
    "dashboard-agent-grpc-port",
    "ray-client-server-port",
)


class RayHead:
    """Its token is not this process's: who speaks with it is given `environment`. Its home folder is `home`.

    `store`: what is in its environment to reach an object store.
    """

    def __init__(self, folder: Path, home: Path, store: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        ports = dict(zip(PORTS, _free_ports(len(PORTS)), strict=True))
        self.address = f"http://127.0.0.1:{ports['dashboard-port']}"
        self.environment = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16)}
        options = [f"--{name}={port}" for name, port in ports.items()]
        command = [
            *(BIN / "ray", "start", "--head", "--block", "--node-ip-address=127.0.0.1"),
            *("--include-dashboard=true", "--dashboard-host=127.0.0.1", "--disable-usage-stats"),
            *(
                "--num-cpus=2",
                "--num-gpus=0",
                "--object-store-memory=80000000",
                f"--temp-dir={folder}",
                *options,
            ),
        ]
        own = {
            "HOME": str(home),
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        }
        without = {"PYTHONPATH", "RAY_ADDRESS", "RAY_API_SERVER_ADDRESS"}
        inherited = {name: value for name, value in os.environ.items() if name not in without}
        self._said = (home / "ray.log").open("w")
        self._process = subprocess.Popen(
            [str(word) for word in command],
            env={**inherited, **own, **self.environment, **(store or {})},
            stdout=self._said,
            stderr=subprocess.STDOUT,
            cwd=home,
            start_new_session=True,
        )

    def wait(self, deadline_s: float = 120) -> None:
        """Until its dashboard answers."""
        end_s = time.monotonic() + deadline_s
        while not self._answers():
            assert self._process.poll() is None, Path(self._said.name).read_text()
            assert time.monotonic() < end_s, Path(self._said.name).read_text()
            time.sleep(0.2)  # a poll of another process: there is nothing to wait on

    def end(self) -> None:
        """It ends what it has started, and no other Ray."""
        self._process.terminate()
        try:
            self._process.wait(60)
        finally:
            self._process.kill()
            self._said.close()

    def _answers(self) -> bool:
        asked = urllib.request.Request(
            f"{self.address}/api/jobs/",
            headers={"Authorization": f"Bearer {self.environment['RAY_AUTH_TOKEN']}"},
        )
        try:
            with urllib.request.urlopen(asked, timeout=10) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def _free_ports(count: int) -> list[int]:
    """Taken together, so that they differ; free for as long as nobody else takes them."""
    taken: list[Any] = [socket.socket() for _ in range(count)]
    for one in taken:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    return ports
