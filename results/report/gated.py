"""Which settings are gated, not lockstep: naive and dynamic on an engine that re-forms its batch at each step."""

from collections.abc import Sequence

from results.comparisons import joinable_backends
from results.report.series import Series, backend_name
from results.sentences import gated_note


def gated_notes(series: Sequence[Series]) -> tuple[str, ...]:
    """Say it of each backend on which such settings ran; nothing where there are none."""
    joinable = joinable_backends([cell for one in series for cell in one.cells])
    gated = dict.fromkeys(
        one.backend for one in series if one.backend in joinable and one.strategy != "continuous"
    )
    return tuple(gated_note(backend_name(one)) for one in gated)
