"""Deflated texts and columns of whole numbers inside the page: small, and decoded by scripts/packed.js.

A block is the columns one after the other, each as byte planes (all lowest bytes, then the next ones), of the values
or of their differences modulo 2³²; deflated (RFC 1950), in base64. High planes are mostly zeros, which deflate removes.
"""

import base64
import json
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_LEVEL = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A script element of the page. `about`: JSON that tells what the columns are; `text`: base64."""

    name: str
    about: str
    text: str


def pack(
    name: str,
    columns: Mapping[str, npt.NDArray[Any]],
    *,
    about: Mapping[str, Any] | None = None,
    deltas: Collection[str] = (),
) -> Block:
    """Give a block of columns of whole numbers from 0 to 2³² − 1; `deltas` names those to be kept as differences.

    ValueError for a column that is not that. The script has them as typed arrays, by name.
    """
    listed, planes = [], []
    for key, values in columns.items():
        if values.size and (values.dtype.kind not in "iu" or values.min() < 0 or values.max() >= 2**32):
            raise ValueError(f"{key} must be whole numbers from 0 to 2³² − 1, got {values.dtype}")
        whole = values.astype(np.uint32)
        if key in deltas:
            whole = np.diff(whole, prepend=np.uint32(0))  # wraps, as the script's sums do
        width = 4 if key in deltas else next(w for w in (1, 2, 4) if whole.max(initial=0) < 256**w)
        octets = whole.astype("<u4").view(np.uint8).reshape(-1, 4)[:, :width]
        planes.append(np.ascontiguousarray(octets.T).tobytes())
        listed.append({"name": key, "length": int(whole.size), "bytes": width, "delta": key in deltas})
    text = deflated(b"".join(planes))
    described = {"about": dict(about or {}), "columns": listed}
    return Block(name=name, about=json.dumps(described, allow_nan=False, separators=(",", ":")), text=text)


def deflated(octets: bytes) -> str:
    """Deflate (RFC 1950), as base64: it can stand in a script element."""
    return base64.b64encode(zlib.compress(octets, _LEVEL)).decode("ascii")
