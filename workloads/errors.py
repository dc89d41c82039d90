"""The error of the workload side."""


class WorkloadError(ValueError):
    """A workload cannot be made: one line that says what must hold and what was given.

    It is a ValueError so that the checks of a law, raised while a config is validated, reach the person
    who wrote the config as an ordinary validation error.
    """
