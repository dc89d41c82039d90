"""Where a figure is from, in one line: it goes with every image, for an image that is mailed alone is all that is seen."""

from results.findings import Findings
from results.report.caveats import caveats


def origin(findings: Findings, name: str, setup: str, repeats: str) -> str:
    """Give a sweep's name, what it ran on, its repeats and what to doubt most of it, as the page has them."""
    worst = next((f"beware: {one.short}" for one in caveats(findings, findings.trials)), "")
    return " · ".join(filter(None, ("batchyard", name, setup, repeats, worst)))
