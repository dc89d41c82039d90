"""How the command speaks: results on standard output, what goes on beside them on standard error, errors in one line.

Exit codes: 0 done, 1 some cells failed, an engine could not be timed, the disk is full or the results folder stayed
out of reach, 2 bad input (nothing was started), 130 interrupted (resumable), 141 who read standard output has closed it.
"""

import errno
import json
import os
import re
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TypeAlias

from rich.console import Console

from deployments.errors import BackendError
from experiments.document import in_one_line
from experiments.errors import ConfigError, SweepFailed
from experiments.text_table import Column, lines
from results.errors import FULL, DiskFull, StoreError, one_line, said
from workloads.errors import WorkloadError

_PASSWORD = re.compile(
    r"(\b[a-z0-9+.-]+:/+)[^/@\s]+@"
)  # a path makes s3://key:secret@bucket s3:/key:secret@bucket
READER_GONE = 141  # as a shell says of a program that SIGPIPE ended

Say: TypeAlias = Callable[[str], None]  # one line for a person, such as `tell`


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Who reads has enough, as `head` has."""
        _end_quietly()


out = _Console()
_errors = Console(stderr=True)

NO_PLACE = frozenset(  # what keeps a file from being read or written, and a person can mend
    {
        *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY),
        *(errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EIO),
    }
)


def tell(text: str) -> None:
    """One line on standard error, which is never broken; a password in the address of a store is left out."""
    _errors.print(_PASSWORD.sub(r"\1…@", text), markup=False, highlight=False, soft_wrap=True)


def show(text: str) -> None:
    """One line on standard output, which is never broken."""
    out.print(text, markup=False, highlight=False, soft_wrap=True)


def show_prose(text: str) -> None:
    """Prose on standard output: broken at words on a terminal, one line elsewhere."""
    wide = out.width if out.is_terminal else len(text) + 1
    for line in textwrap.wrap(text, max(wide, 20), subsequent_indent="  ", break_on_hyphens=False):
        show(line)


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, right: int) -> list[str]:
    """Lines of aligned columns, never broken; columns from the index `right` on stand on the right."""
    columns = [Column(title=title, right=index >= right) for index, title in enumerate(titles)]
    return lines(columns, rows, sys.maxsize)


def emit(document: Any) -> None:
    """One JSON document on standard output, and nothing else; text is escaped, for any terminal and pipe."""
    print(json.dumps(document, indent=2, allow_nan=False))


def _end_quietly() -> NoReturn:
    """Also what is still buffered goes nowhere, so that nothing complains at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(READER_GONE)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn what a person can mend into lines that begin with "error:", and exit."""
    warnings.simplefilter("ignore")  # foreign deprecations are not for the user
    try:
        yield
        sys.stdout.flush()  # here, and not where Python ends and could only complain
    except BrokenPipeError:
        _end_quietly()
    except ConfigError as error:  # a line for each problem
        for line in str(error).splitlines():
            tell(f"error: {line}")
        sys.exit(2)
    except (StoreError, WorkloadError, BackendError, SweepFailed) as error:
        tell(f"error: {in_one_line(str(error))}")
        sys.exit(1 if isinstance(error, DiskFull | SweepFailed) else 2)
    except OSError as error:
        if error.errno not in NO_PLACE | FULL:
            raise
        where = error.filename2 or error.filename  # of pyarrow's errors the text names the file
        tell(f"error: {one_line(error) if where is None else f'{where} cannot be used: {said(error)}'}")
        sys.exit(1 if error.errno in FULL else 2)
