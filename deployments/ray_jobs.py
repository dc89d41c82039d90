"""Ray's job API, over HTTP: what was submitted runs on the cluster's head and needs no client any more.

It is all that a laptop needs of a cluster: one port, the dashboard's, which an SSH tunnel brings to this machine. Files come
back over it too: Ray serves what lies in a node's folder of logs, byte for byte.
"""

import contextlib
import logging
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlencode, urlsplit

from deployments.errors import JobError, last_line
from deployments.ray_session import only_warnings, prepare_environment

ADDRESS = "http://127.0.0.1:8265"  # where `ray dashboard`, `ssh -L` and `kubectl port-forward` bring it
ENDED = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})
_OVERRIDING = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")  # Ray would take these for the address that was given
_UNKNOWN = ("does not exist", "status code 404")  # the second of a name that no address can have
_CHUNK_BYTES = 1 << 20
_DAY_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as the cluster knows it."""

    id: str
    state: str  # PENDING, RUNNING, or one of ENDED
    message: str
    metadata: Mapping[str, str]
    node: str | None  # Ray's id of the node that its command runs on
    exit_code: int | None
    started_at: str | None  # ISO 8601, UTC
    ended_at: str | None


class RayJobs:
    """The jobs of the cluster whose dashboard is at `address`. JobError if none answers, or none that lets us in."""

    def __init__(self, address: str) -> None:
        if not _is_of_http(address):
            raise JobError(
                f"--address must be http://HOST:PORT of a cluster's dashboard ({ADDRESS} at the end of a tunnel), got {address}"
            )
        prepare_environment()
        for name in _OVERRIDING:
            os.environ.pop(name, None)
        from ray.job_submission import JobSubmissionClient

        only_warnings()
        logging.getLogger("ray.dashboard").setLevel(logging.WARNING)
        for module in ("modules.dashboard_sdk", "modules.job.sdk"):  # each has set its own
            logging.getLogger(f"ray.dashboard.{module}").setLevel(logging.WARNING)
        self.address = address.rstrip("/")
        with self._errors():
            self._client = JobSubmissionClient(self.address)

    def submit(
        self,
        command: str,
        *,
        job: str,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        """Run a shell command in a copy of the folder, on the head."""
        with self._errors():
            self._client.submit_job(
                entrypoint=command,
                submission_id=job,
                runtime_env={"working_dir": str(folder), "env_vars": dict(environment or {})},
                metadata=dict(metadata or {}),
            )

    def job(self, job: str) -> Job:
        """How it stands. JobError if there is none."""
        with self._errors(job):
            return _job(self._client.get_job_info(job))

    def all(self) -> list[Job]:
        """Those that were submitted; not other drivers."""
        with self._errors():
            return [_job(one) for one in self._client.list_jobs() if one.submission_id]

    def logs(self, job: str) -> str:
        """What it has written by now."""
        with self._errors(job):
            return str(self._client.get_job_logs(job))

    def stop(self, job: str) -> None:
        """Ask it to end."""
        with self._errors(job):
            self._client.stop_job(job)

    def download(self, job: Job, name: str, into: BinaryIO, seen: Callable[[int], None]) -> None:
        """A file in the folder of logs of the job's node; `seen` is told the bytes so far."""
        from ray._private.authentication.http_token_authentication import get_auth_headers_if_auth_enabled

        asked = urlencode({"node_id": job.node, "filename": name, "lines": -1, "timeout": _DAY_S})
        request = urllib.request.Request(
            f"{self.address}/api/v0/logs/file?{asked}", headers=get_auth_headers_if_auth_enabled({})
        )
        with self._errors(job.id), urllib.request.urlopen(request) as answer:
            count = 0
            while chunk := answer.read(_CHUNK_BYTES):
                into.write(chunk)
                count += len(chunk)
                seen(count)

    @contextlib.contextmanager
    def _errors(self, job: str | None = None) -> Iterator[None]:
        from ray.exceptions import AuthenticationError

        try:
            yield
        except AuthenticationError as error:
            text = "asks for its token: set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or ~/.ray/auth_token to what it was started with"
            raise JobError(f"the cluster at {self.address} {text}") from error
        except (OSError, RuntimeError, ValueError) as error:
            said = last_line(error)
            if job is not None and any(one in str(error) for one in _UNKNOWN):
                raise JobError(f"the cluster at {self.address} knows no job {job}") from error
            if isinstance(error, ConnectionError) or "Connection" in type(error).__name__:
                raise JobError(
                    f"no Ray dashboard answers at {self.address}: `ray dashboard CLUSTER.yaml`, left open, brings it to {ADDRESS}"
                ) from error
            raise JobError(f"the cluster at {self.address} refused: {said}") from error


def _job(info: Any) -> Job:
    return Job(
        id=str(info.submission_id),
        state=str(getattr(info.status, "value", info.status)),
        message=" ".join((info.message or "").split()),
        metadata=info.metadata or {},
        node=info.driver_node_id,
        exit_code=info.driver_exit_code,
        started_at=_moment(info.start_time),
        ended_at=_moment(info.end_time),
    )


def _is_of_http(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        return False


def _moment(milliseconds: int | None) -> str | None:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat() if milliseconds else None
