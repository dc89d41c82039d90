"""A store that is out of reach is tried again for a while: a mount that comes back, a network that stutters.

What a person must mend (no room, no permission, a file where a folder should be) is not waited for.
"""

import errno
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from results.address import Address, place
from results.errors import StoreAway, StoreError, said
from results.unanswered import interruptibly

PATIENCE_S = 60.0  # of those who write while a sweep runs: a file server is back within a minute
AGAIN_S = 0.5

NETWORK = frozenset(  # of a file server, never of one file
    {
        *(
            errno.ESTALE,
            errno.ETIMEDOUT,
            errno.EHOSTDOWN,
            errno.EHOSTUNREACH,
            errno.ENETDOWN,
            errno.ENETUNREACH,
        ),
        *(errno.ENOTCONN, errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED, errno.EREMOTEIO),
    }
)
AWAY = NETWORK | {errno.ENOENT, errno.EIO, errno.ENODEV, errno.ENXIO, errno.EBUSY, errno.EAGAIN}

REFUSED = re.compile(  # by an object store: what a person must mend, in the words of pyarrow
    r"ACCESS_DENIED|NO_SUCH_BUCKET|NO_SUCH_KEY|INVALID_ACCESS_KEY_ID|INVALID_CLIENT_TOKEN_ID|SIGNATURE_DOES_NOT_MATCH|"
    r"UNRECOGNIZED_CLIENT|EXPIRED_TOKEN|UNAUTHENTICATED|PERMISSION_DENIED|HTTP status 40[0134]|Bucket '.*' not found"
)

T = TypeVar("T")


def patience_s(root: str | os.PathLike[str]) -> float:
    """Of who asks while a sweep runs and would not wait for a folder: a service stutters, and is given up soon."""
    return PATIENCE_S if isinstance(place(root), Address) else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """For how long, seconds; 0 tries once, and takes a file for damaged but no server. `remote`: its errors have no number, and count but for a few names."""

    wait_s: float = 0.0
    remote: bool = False
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def ask(self, act: Callable[[], T]) -> T:
        """What `act` gives, tried again while it raises what a store out of reach does; then StoreAway, which is
        never taken for a file that is damaged.

        `act` raises an OSError, or a StoreError from one; anything else goes through at once.
        """
        end_s = self.clock() + self.wait_s
        while True:
            try:
                return interruptibly(act) if self.remote else act()
            except (StoreError, OSError) as error:
                if isinstance(error, StoreAway) or not self._is_away(error):
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
        return cause.errno in (AWAY if self.wait_s else NETWORK)

    def _in_words(self, error: StoreError | OSError) -> str:
        told = f"{error.filename}: {said(error)}" if isinstance(error, OSError) else str(error)
        if not self.wait_s:
            return told
        return f"{told}; it was tried again for {self.wait_s:g} s, and what was written before that is kept"
