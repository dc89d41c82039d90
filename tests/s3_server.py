"""A real S3 server on this machine (moto's), for tests of results in a bucket."""

from pathlib import Path

from pyarrow import fs

from tests.server_process import ServerProcess


class S3Server(ServerProcess):
    """Takes any credentials."""

    def __init__(self, log: Path) -> None:
        super().__init__(log, "moto.server", "-H", "127.0.0.1", "-p", "{port}")
        self._buckets = 0

    @property
    def environment(self) -> dict[str, str]:
        """In the names that AWS gave them."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "marker-secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def bucket(self) -> str:
        """With that environment set."""
        self._buckets += 1
        name = f"bucket-{self._buckets}"
        opened, _ = fs.FileSystem.from_uri(f"s3://{name}?allow_bucket_creation=true")
        opened.create_dir(name)
        return f"s3://{name}"
