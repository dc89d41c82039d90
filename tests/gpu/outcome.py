"""How a check ends: it gives the figure that it saw, or raises."""


class Failed(Exception):
    """What was seen instead of what must hold."""


def require(holds: bool, otherwise: str) -> None:
    """Failed with `otherwise` unless it holds."""
    if not holds:
        raise Failed(otherwise)
