"""A real S3 server on this machine (moto's), for tests of results in a bucket."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyarrow import fs

DEADLINE_S = 60.0


class S3Server:
    """In a process of its own, so that it can be stopped and go on."""

    def __init__(self, log: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        with log.open("w") as file:
            self.process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        self._buckets = 0

    @property
    def environment(self) -> dict[str, str]:
        """Where it is, and the credentials that it takes: any."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "marker-secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def bucket(self) -> str:
        """A new one, with nothing in it, by its address."""
        self._buckets += 1
        name = f"bucket-{self._buckets}"
        opened, _ = fs.FileSystem.from_uri(f"s3://{name}?allow_bucket_creation=true")
        opened.create_dir(name)
        return f"s3://{name}"

    def stop(self) -> None:
        """It answers nothing, and closes nothing."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """As if nothing had been."""
        self.process.send_signal(signal.SIGCONT)


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """One that answers."""
    server = S3Server(folder / "server.log")
    try:
        end_s = time.monotonic() + DEADLINE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", server.port)).close()
                break
            except OSError:
                assert server.process.poll() is None, (folder / "server.log").read_text()
                assert time.monotonic() < end_s, "the server does not answer"
                time.sleep(0.05)  # a poll of another process: there is nothing to wait on
        yield server
    finally:
        server.go_on()
        server.process.kill()
        server.process.wait()
