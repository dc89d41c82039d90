"""Where results lie: a folder of this machine, or an address in an object store that pyarrow opens (s3://, gs://).

`place` is the one way from what a person gives to either. An Address answers to what is asked of a Path, so
that a results folder is named, listed and read by the same code; `opened` gives what pyarrow works with.

An object store has no folders, links or renames, but an object appears whole and at once where it is written, and
who lists after that sees it. Credentials are those of the environment or of the usual files (~/.aws, an instance's
role, gcloud's): an address is shown, recorded and typed again, so one that carries any is refused.

A server that does not answer is given up soon: pyarrow would ask S3 for a minute and a half, and Google for a quarter
of an hour. Who must wait for it asks again (results/patience.py).
"""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Self, TypeAlias

from results.errors import StoreError, said
from results.unanswered import interruptibly

if TYPE_CHECKING:
    from pyarrow import fs

_ADDRESS = re.compile(r"([a-z][a-z0-9+]+):/+(.*)", re.DOTALL)  # a Path makes one slash of two
_CREDENTIALS = re.compile(r"@|key|secret|token|password", re.IGNORECASE)  # in a query
_SCHEMES = ("s3", "gs")
AT_ONCE = "allow_delayed_open=true"  # a small object is one request, instead of an upload in three
S3_TRIES = 2  # of a request, each given up after 3 s without an answer
GS_TRIES_S = 5  # for which a request is tried
EMULATOR = "STORAGE_EMULATOR_HOST"  # as Google's own libraries have it


@dataclass(frozen=True, slots=True)
class Address:
    """`path` is bucket/prefix; `query` what pyarrow is told of the service, as in ?region=eu-west-1."""

    scheme: str
    path: str
    query: str = ""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.path}{self.query}"

    def __fspath__(self) -> str:
        return str(self)

    def __truediv__(self, name: str) -> Self:
        return replace(self, path=f"{self.path}/{name}")

    @property
    def name(self) -> str:
        """After the last slash."""
        return PurePosixPath(self.path).name

    @property
    def suffix(self) -> str:
        """Of the name."""
        return PurePosixPath(self.path).suffix

    @property
    def parts(self) -> tuple[str, ...]:
        """The names on the way."""
        return (f"{self.scheme}://", *self.path.split("/"))

    @property
    def parent(self) -> Self:
        """What it is in; of a bucket itself."""
        return replace(self, path=self.path.rpartition("/")[0] or self.path)

    @property
    def parents(self) -> tuple[Self, ...]:
        """All of them, the innermost first."""
        count = self.path.count("/")
        return tuple(replace(self, path=self.path.rsplit("/", up)[0]) for up in range(1, count + 1))

    def with_name(self, name: str) -> Self:
        """Beside it."""
        return self.parent / name

    def with_suffix(self, suffix: str) -> Self:
        """Beside it, with another suffix."""
        return self.with_name(str(PurePosixPath(self.name).with_suffix(suffix)))

    def resolve(self) -> Self:
        """There are no links."""
        return self

    def exists(self) -> bool:
        """Whether there is an object of this name, or one below it."""
        return self._kind() != "NotFound"

    def is_dir(self) -> bool:
        """Whether there are objects below it."""
        return self._kind() == "Directory"

    def is_file(self) -> bool:
        """Whether it is an object."""
        return self._kind() == "File"

    def iterdir(self) -> Iterator[Self]:
        """What is in it, as far as one name; nothing where there is nothing."""
        found = self.listed(
            recursive=self.scheme == "gs"
        )  # where pyarrow sees no folder that was not made as one
        for name in dict.fromkeys(
            one.path.removeprefix(self.path).strip("/").partition("/")[0] for one in found
        ):
            yield self / name

    def listed(self, *, recursive: bool = False) -> "list[fs.FileInfo]":
        """What is in it, or all that is below it; of gs:// without the folders in it, unless all is asked for."""
        from pyarrow import fs

        filesystem, path = opened(self)
        selector = fs.FileSelector(path, allow_not_found=True, recursive=recursive)
        with _reading(self):
            return list(interruptibly(lambda: filesystem.get_file_info(selector)))

    def read_bytes(self) -> bytes:
        """The whole object. OSError as of a file."""
        return head(self)

    def _kind(self) -> str:
        filesystem, path = opened(self)
        with _reading(self):
            return str(interruptibly(lambda: filesystem.get_file_info(path)).type.name)


Place: TypeAlias = Path | Address


@contextmanager
def _reading(address: Address) -> Iterator[None]:
    """A service that cannot be asked is no place where nothing is."""
    from pyarrow import ArrowException

    try:
        yield
    except (OSError, ArrowException) as error:  # the latter of credentials that cannot be used
        raise StoreError(f"{address} cannot be looked at: {said(error)}") from error


def place(given: str | os.PathLike[str]) -> Place:
    """A local path, or an Address; file:// is local. StoreError for an address that cannot be one."""
    if isinstance(given, Address):
        return given
    text = os.fspath(given).removeprefix("file://")
    if (found := _ADDRESS.fullmatch(text)) is None:
        return Path(text)
    scheme, (path, mark, query) = found[1], found[2].partition("?")
    bucket = path.partition("/")[0]
    if not bucket or {"@", ":"} & set(bucket) or _CREDENTIALS.search(query):
        raise StoreError(
            f"an address of results must be {scheme}://BUCKET/PREFIX without a user, password or port in it: credentials "
            "are taken from the environment (AWS_ACCESS_KEY_ID, …) or their usual files"
        )
    if scheme not in _SCHEMES:
        raise StoreError(f"results must lie in a folder or at s3:// or gs://, got {scheme}://{path}")
    return Address(scheme, path.rstrip("/"), mark + query)


def opened(where: Place) -> "tuple[fs.FileSystem, str]":
    """What pyarrow works with. StoreError if there is no such service, option or bucket."""
    from pyarrow import fs  # here, as help and completion do without

    if isinstance(where, Path):
        return fs.LocalFileSystem(), str(where.absolute())
    return _filesystem(where.scheme, where.path.partition("/")[0], where.query), where.path


@cache
def _filesystem(scheme: str, bucket: str, query: str) -> "fs.FileSystem":
    """Once in a process: finding the region of a bucket is a request."""
    from pyarrow import fs

    try:
        if scheme == "s3":
            return interruptibly(lambda: _s3(bucket, query))
        return fs.FileSystem.from_uri(_gs(bucket, query))[0]
    except (OSError, ValueError) as error:
        raise StoreError(f"{scheme}://{bucket}{query} cannot be opened: {said(error)}") from error


def _s3(bucket: str, query: str) -> "fs.FileSystem":
    """An address cannot say how often is tried, so what it says is taken over, and the bucket's region with it."""
    from pyarrow import fs

    said_so, _ = fs.FileSystem.from_uri(_asked(f"s3://{bucket}{query}", AT_ONCE))
    _, (options,) = said_so.__reduce__()
    return fs.S3FileSystem(**options, retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=S3_TRIES))


def _gs(bucket: str, query: str) -> str:
    """What pyarrow is asked for: of an emulator without credentials, of which it takes none."""
    if not (emulator := os.environ.get(EMULATOR)):
        return _asked(f"gs://{bucket}{query}", f"retry_limit_seconds={GS_TRIES_S}")
    scheme, _, host = emulator.rpartition("://")
    where = f"scheme={scheme or 'http'}&endpoint_override={host.rstrip('/')}"
    return _asked(f"gs://anonymous@{bucket}{query}", f"retry_limit_seconds={GS_TRIES_S}&{where}")


def _asked(address: str, options: str) -> str:
    return f"{address}{'&' if '?' in address else '?'}{options}"


def shown(filesystem: "fs.FileSystem", path: str) -> str:
    """A path of pyarrow's as a person gives it, with the scheme of an object store."""
    scheme = {"s3": "s3://", "gcs": "gs://"}.get(filesystem.type_name, "")
    return f"{scheme}{path}"


def head(where: Place, count: int | None = None) -> bytes:
    """The first bytes of what is there, or all. OSError if it cannot be read."""
    filesystem, path = opened(where)

    def read() -> bytes:
        try:
            with filesystem.open_input_file(path) as file:
                return bytes(file.read(count))
        except ValueError as error:  # of gs:// where it was deleted meanwhile
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error

    return interruptibly(read) if isinstance(where, Address) else read()
