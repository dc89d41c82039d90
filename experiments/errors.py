"""The errors of the experiments side."""


class ConfigError(Exception):
    """A config is wrong: one line per problem that names the file, the key, what was given and is allowed."""


class SweepFailed(Exception):
    """What was started could not go on: one line that says why. What was done before stays."""


class TrialError(Exception):
    """An attempt must not count: `cause` is its class (all-failed, no-requests), the text says why."""

    def __init__(self, cause: str, text: str, *, permanent: bool = False) -> None:
        super().__init__(text)
        self.cause = cause
        self.permanent = permanent  # another try would end the same way
