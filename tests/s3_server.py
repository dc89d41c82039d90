"""A real S3 server on this machine (moto's), for tests of results in a bucket."""

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
from pyarrow import fs

from tests.server_process import ServerProcess


class S3Server(ServerProcess):
    """Takes any credentials, but where it is asked to look at them."""

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

    @contextmanager
    def reader(self) -> Iterator[dict[str, str]]:
        """For the length of the block it looks at credentials: those of an account that may read and list, and no more."""
        iam = boto3.client("iam", endpoint_url=self.environment["AWS_ENDPOINT_URL"])
        # The last is the second, by the server's own name.
        reads = ["s3:GetObject", "s3:ListBucket", "s3:HeadBucket"]
        statement = {"Effect": "Allow", "Action": reads, "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        iam.create_user(UserName="reader")
        arn = iam.create_policy(PolicyName="reads", PolicyDocument=policy)["Policy"]["Arn"]
        iam.attach_user_policy(UserName="reader", PolicyArn=arn)
        key = iam.create_access_key(UserName="reader")["AccessKey"]
        self._let_in_unseen("0")
        try:
            yield {
                "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
                "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
            }
        finally:
            self._let_in_unseen("inf")

    def _let_in_unseen(self, requests: str) -> None:
        """So many from now on."""
        asked = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/moto-api/reset-auth",
            data=requests.encode(),
            headers={"Content-Type": "text/plain"},
        )
        urllib.request.urlopen(asked).close()
