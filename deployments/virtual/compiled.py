"""Functions compiled to machine code, and kept on disk for the next process.

numba looks at the age of the file that a function is in, and not of the files of what it calls, so that a change
there would leave the old code in use. Here what was kept holds for the very texts of all files of this folder.
Where no folder can be written (neither this one nor the user's cache), each process compiles again.
"""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Generic, ParamSpec, TypeVar, cast

from numba import njit, typeof
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    InTreeCacheLocator,
    UserProvidedCacheLocator,
    UserWideCacheLocator,
)

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def compiled(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """For functions that compiled ones call."""
    return cast(
        Callable[Parameters, Result],
        njit(_nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function),
    )


class Entry(Generic[Parameters, Result]):
    """A function that Python calls, always with arguments of the same types."""

    def __init__(self, function: Callable[Parameters, Result]) -> None:
        self._function = njit(_nrt=False, no_cfunc_wrapper=True)(function)
        with suppress(RuntimeError):  # no folder can be written
            self._function._cache = _Cache(function)
        self._point: Callable[Parameters, Result] | None = None

    def point(self, *examples: Parameters.args, **_: Parameters.kwargs) -> Callable[Parameters, Result]:
        """The machine code for arguments like these, which it takes as they are: a call costs a third of numba's,
        which looks at the types each time.
        """
        if self._point is None:
            self._point = self._function.compile(tuple(map(typeof, examples)))
        return self._point

    @property
    def compiled_here(self) -> bool:
        """Whether this process had to compile it, because nothing was kept."""
        return bool(self._function.stats.cache_misses)


@cache
def _texts() -> str:
    """A hash of the files of this folder."""
    found = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in found)).hexdigest()


class _Stamp:
    """What a function that was kept must agree with."""

    def get_source_stamp(self) -> str:
        return _texts()


class _Given(_Stamp, UserProvidedCacheLocator):  # type: ignore[misc]
    """In NUMBA_CACHE_DIR."""


class _Here(_Stamp, InTreeCacheLocator):  # type: ignore[misc]
    """In `__pycache__`."""


class _OfUser(_Stamp, UserWideCacheLocator):  # type: ignore[misc]
    """In the user's cache."""


class _Kept(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = [_Given, _Here, _OfUser]  # noqa: RUF012 - numba's


class _Cache(FunctionCache):  # type: ignore[misc]
    _impl_class = _Kept
