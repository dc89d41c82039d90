"""What Plotly reads as HTML in a figure, or in all figures of a page."""

import base64
import json
import zlib
from collections.abc import Iterator
from typing import Any

KEYS = frozenset(
    {"text", "hovertext", "hovertemplate", "name", "ticktext", "title", "categoryarray", "x", "y"}
)


def texts(value: Any, *, read: bool = False) -> Iterator[str]:
    """Every such string under `value`, a figure's specification."""
    if isinstance(value, str) and read:
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from texts(one, read=read)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key != "meta":
                yield from texts(inner, read=read or key in KEYS)


def texts_of_page(html: str) -> list[str]:
    """Those of the figures that a page carries ready made; its scripts make the others."""
    packed = html.split('id="panels">')[1].split("</script>")[0]
    panels = json.loads(zlib.decompress(base64.b64decode(packed)))
    charts = [
        chart for panel in panels.values() for view in panel["views"].values() for chart in view["charts"]
    ]
    return [text for chart in charts for text in texts([chart["data"], chart["layout"]])]
