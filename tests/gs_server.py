"""A server of Google Cloud Storage's API on this machine (gcp-storage-emulator's), for tests of results in a bucket."""

import json
import urllib.request
from pathlib import Path

from tests.server_process import ServerProcess


class GsServer(ServerProcess):
    """Takes no credentials, as it is an emulator."""

    def __init__(self, log: Path) -> None:
        options = ("start", "--host", "127.0.0.1", "--port", "{port}", "--in-memory")
        super().__init__(log, "gcp_storage_emulator", *options)
        self._buckets = 0

    @property
    def environment(self) -> dict[str, str]:
        """In the name that Google's own libraries have for it."""
        return {"STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{self.port}"}

    def bucket(self) -> str:
        """By the API itself: pyarrow would ask for a project."""
        self._buckets += 1
        name = f"bucket-{self._buckets}"
        asked = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/storage/v1/b?project=tests",
            data=json.dumps({"name": name}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(asked):
            return f"gs://{name}"
