"""The errors of the results side."""

import errno
import os
import re

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})  # no space, no quota, larger than a file may be


_GOOGLE = re.compile(
    r"google::cloud::Status\((\w+): [^,]*, with a last message of (.*?)(?: error_info=|$)", re.DOTALL
)

_AWS = re.compile(r"AWS Error (\w+) during (\w+) operation: (.*?)(?: \(Request ID: [^)]*\))?$", re.DOTALL)


class StoreError(Exception):
    """A results folder cannot be read or written: names the file and what would be right."""


class DiskFull(StoreError):
    """There is no room for what was to be written; what was written before stays."""


class StoreAway(StoreError):
    """A results folder that a sweep writes to was out of reach for longer than is waited for."""


class FutureVersion(StoreError):
    """A document was written by a newer version of this program."""


def one_line(error: BaseException) -> str:
    """The first line of a foreign error that says something, or the name of its class.

    A line that ends in a colon says what follows, so the next one belongs to it.
    """
    return first_line(str(error)) or type(error).__name__


def first_line(text: str) -> str:
    """The first line that says something, with the next one where it ends in a colon."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = lines[:1]
    while said and said[-1].endswith(":") and len(said) < len(lines):
        said.append(lines[len(said)])
    return " ".join(said)


def cannot_write(path: str, error: OSError) -> StoreError:
    """What to raise, `from error`, where writing `path` failed."""
    if error.errno in FULL:
        return DiskFull(f"{path} cannot be written: the disk is full or a quota used up; free some of it")
    place = str(error.filename or path)
    culprit = "" if place in path else f" ({place})"
    return StoreError(f"{path} cannot be written: {said(error)}{culprit}; give a folder that can be")


def said(error: Exception) -> str:
    """What the system says, without what a library puts around it."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    if (aws := _AWS.search(str(error))) is not None:
        return _said_by_aws(*aws.groups())
    if (google := _GOOGLE.search(str(error))) is None:
        return one_line(error)
    code, why = google.groups()
    if "OAuth2 access token" not in why:
        return f"{code}: {one_line(Exception(why))}"
    return (
        f"no credentials of Google Cloud could be used ({why.rpartition('error message was: ')[2].removeprefix('PerformWork() - ').strip(' .')}); set "
        "GOOGLE_APPLICATION_CREDENTIALS to a key file, or `gcloud auth application-default login`"
    )


def _said_by_aws(code: str, operation: str, why: str) -> str:
    text = f"{code} in {operation}: {one_line(Exception(why))}" if why.strip() else f"{code} in {operation}"
    if code != "ACCESS_DENIED":
        return text
    return f"{text.rstrip('.')}; the credentials in use (of the environment, ~/.aws or the machine's role) may not do that"
