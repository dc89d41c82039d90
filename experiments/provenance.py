"""Where a result came from: versions, machine and commit, so that it can be had again."""

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from deployments.errors import DeviceError
from deployments.gpus import facts, visible_gpus

COMMIT = "BATCHYARD_COMMIT"  # of a checkout that was sent without its repository, as `commit` says it
_CHANGED = ", changed"
PACKAGES = ("ray", "torch", "transformers", "numpy", "pyarrow")  # vLLM's version comes from its backend


def provenance() -> dict[str, Any]:
    """Host, processor, cores, memory, GPUs, versions, git commit and whether a file of it was changed."""
    of_checkout, _, changed = commit().partition(_CHANGED[:1])
    return {
        "host": platform.node(),
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
        "gpus": _gpus(),
        "git_commit": of_checkout or None,
        "git_dirty": bool(changed) if of_checkout else None,
    }


def commit() -> str:
    """The commit, with ", changed" if one of its files was; empty where there is none."""
    root = Path(__file__).resolve().parent.parent
    found = _git(root, "rev-parse", "HEAD") if (root / ".git").exists() else None
    if found is None:
        return os.environ.get(COMMIT, "")
    return f"{found}{_CHANGED if _changes(root) else ''}"


def _changes(root: Path) -> str | None:
    """Files of the commit that were changed: what lies beside them, such as a config of one's own, changes nothing."""
    return _git(root, "status", "--porcelain", "--untracked-files=no")


def version() -> str:
    """The version of batchyard in one line, with the commit where it runs from a checkout."""
    root = Path(__file__).resolve().parent.parent
    said = f"batchyard {_version('batchyard')}"
    if not (root / ".git").exists() or (commit := _git(root, "rev-parse", "--short=12", "HEAD")) is None:
        return said
    return f"{said} (commit {commit}{', changed' if _changes(root) else ''})"


def _gpus() -> dict[str, dict[str, Any]]:
    """Empty too where none may be used: what needs one has been refused before."""
    try:
        return facts(visible_gpus())
    except DeviceError:
        return {}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _git(root: Path, *arguments: str) -> str | None:
    return _output("git", "-C", str(root), *arguments)


def _output(*command: str) -> str | None:
    """What a command prints; None if it is not there or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
