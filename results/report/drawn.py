"""A figure of what plotly has looked at once.

Each trace is checked when it is made. Plotly would make and check it again for the figure, which is 40 % of the time of
a page; that layouts are valid too is seen by a test of whole pages.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go


def figure(traces: Sequence[Any], layout: Mapping[str, Any] | go.Layout) -> go.Figure:
    """Give the figure of these traces."""
    return go.Figure(data=traces, layout=layout, _validate=False)
