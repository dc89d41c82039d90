"""A store that is out of reach is tried again for a while: a mount that comes back, a network that stutters.

What a person must mend (no room, no permission, a file where a folder should be) is not waited for.
"""

import errno
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from results.errors import StoreAway, StoreError, said

PATIENCE_S = 60.0  # of those who write while a sweep runs: a file server is back within a minute
AGAIN_S = 0.5

AWAY = frozenset(
    {
        *(errno.ENOENT, errno.ESTALE, errno.EIO, errno.ENODEV, errno.ENXIO, errno.EBUSY, errno.EAGAIN),
        *(errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH),
        *(errno.ENOTCONN, errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED, errno.EREMOTEIO),
    }
)

REFUSED = re.compile(  # by an object store: what a person must mend, in the words of pyarrow
    r"ACCESS_DENIED|NO_SUCH_BUCKET|NO_SUCH_KEY|INVALID_ACCESS_KEY_ID|INVALID_CLIENT_TOKEN_ID|SIGNATURE_DOES_NOT_MATCH|"
    r"UNRECOGNIZED_CLIENT|EXPIRED_TOKEN|UNAUTHENTICATED|PERMISSION_DENIED|HTTP status 40[0134]|Bucket '.*' not found"
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """For how long, seconds; 0 tries once. `remote`: its errors have no number, and count but for a few names."""

    wait_s: float = 0.0
    remote: bool = False
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def ask(self, act: Callable[[], T]) -> T:
        """What `act` gives, tried again while it raises what a store out of reach does; then StoreAway.

        `act` raises an OSError, or a StoreError from one; anything else goes through at once.
        """
        end_s = self.clock() + self.wait_s
        while True:
            try:
                return act()
            except (StoreError, OSError) as error:
                if not self.wait_s or isinstance(error, StoreAway) or not self._is_away(error):
                    raise
                if self.clock() >= end_s:
                    raise StoreAway(self._in_words(error)) from error
            self.sleep(AGAIN_S)

    def _is_away(self, error: StoreError | OSError) -> bool:
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, OSError):
            return False
        if self.remote:
            return cause.errno is None and not REFUSED.search(str(cause))
        return cause.errno in AWAY

    def _in_words(self, error: StoreError | OSError) -> str:
        told = f"{error.filename}: {said(error)}" if isinstance(error, OSError) else str(error)
        return f"{told}; it was tried again for {self.wait_s:g} s, and what was written before that is kept"
