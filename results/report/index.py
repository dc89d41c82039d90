"""The page that lists the sweeps of a results folder: what each found, how far it is, and the way to its page."""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import unescape
from typing import Any
from urllib.parse import quote

from results.address import Address, Place, head
from results.findings import Findings
from results.report import frame
from results.report.answer import headline
from results.report.series import series_of
from results.wording import NO_MODEL

_ABOUT = re.compile(r'<meta name="batchyard-sweep" content="([^"]*)">')
_HEAD_BYTES = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a sweep found, as its own page keeps it for the list; `done` cells were counted."""

    headline: str
    models: str
    devices: str
    done: int

    def text(self) -> str:
        """Give it for the head of the page."""
        return json.dumps(asdict(self), ensure_ascii=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One sweep of the list; `page` is None until it is drawn."""

    name: str
    folder: Place
    headline: str
    progress: str
    begun: str
    models: str
    devices: str
    simulated: bool
    page: Place | None

    def document(self) -> dict[str, Any]:
        """Give it as plain JSON values."""
        return asdict(self) | {"folder": str(self.folder), "page": self.page and str(self.page)}


def found_in(findings: Findings) -> Found:
    """Give what the list says of one sweep."""
    trials = [one.trial for one in findings.trials]
    models, devices = (
        ", ".join(name for name in dict.fromkeys(names) if name != NO_MODEL)
        for names in ([trial.model for trial in trials], [trial.device for trial in trials])
    )
    return Found(
        headline=headline(findings, series_of(findings)), models=models, devices=devices, done=len(trials)
    )


def found_on(page: Place) -> Found | None:
    """Read it from the head of a sweep's page; None if it does not say, as pages of earlier versions do not."""
    try:
        told = _ABOUT.search(head(page, _HEAD_BYTES).decode(errors="replace"))
        return None if told is None else Found(**json.loads(unescape(told[1])))
    except (OSError, ValueError, TypeError):
        return None


def write(entries: Sequence[Entry], folder: Place, path: Place) -> None:
    """Write the list whole, in place of an older one. StoreError if it cannot be written."""
    frame.write(render(entries, folder, path), path)


def render(entries: Sequence[Entry], folder: Place, path: Place) -> str:
    """Give the list as HTML; pages are linked from where it will lie, the newest sweep first."""
    ordered = sorted(entries, key=lambda one: one.begun, reverse=True)
    links = [None if one.page is None else _link(one.page, path) for one in ordered]
    return frame.frame(
        "index.html.j2",
        {},
        title=f"Sweeps in {folder} · batchyard",
        folder=str(folder),
        entries=list(zip(ordered, links, strict=True)),
    )


def _link(page: Place, path: Place) -> str:
    """From the list to a page: by the way between them, also where both lie in a bucket."""
    if isinstance(page, Address) != isinstance(path, Address):
        return str(page)
    return quote(
        os.path.relpath(*(one.path if isinstance(one, Address) else one for one in (page, path.parent)))
    )
