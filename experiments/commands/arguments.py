"""The arguments that several commands take, and how a command is written so that it can be typed again."""

import math
import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.commands.completion import DEFAULT_RESULTS, configs, sweeps
from experiments.errors import ConfigError
from results.address import Place, place
from results.errors import StoreError
from results.sweep_folder import is_sweep, sweep_around

if TYPE_CHECKING:
    from experiments.budget import Limits
    from experiments.where import Where

RESULTS = Path(DEFAULT_RESULTS)
if TYPE_CHECKING:
    Given = Place
else:
    Given = Path  # typer knows no unions, and asks the parser


def some_path(text: str) -> Place:
    """A path that was given: an empty one (a variable that is not set) would be the folder that one is in."""
    if not text:
        raise typer.BadParameter("must name a place, got nothing")
    try:
        return place(text)
    except StoreError as error:
        raise typer.BadParameter(str(error)) from None


def by_name(folder: Place | None) -> Place | None:
    """A sweep that is named as `ls` prints it is looked for in the default results folder."""
    if (
        not isinstance(folder, Path)
        or len(folder.parts) != 1
        or os.path.exists(folder)
        or not is_sweep(RESULTS / folder)
    ):
        return folder
    return RESULTS / folder


Config = Annotated[Path, typer.Argument(help="The sweep's YAML config.", autocompletion=configs)]
Folder = Annotated[
    Given,
    typer.Argument(
        help="A sweep's results folder or s3:// address, or its name as `ls` prints it.",
        parser=some_path,
        autocompletion=sweeps,
        callback=by_name,
    ),
]
Results = Annotated[
    Given,
    typer.Option(
        help="Folder that holds the sweeps' results, or an address of one: s3://bucket/prefix or gs://.",
        parser=some_path,
        metavar="<path>",
    ),
]


def lanes_asked(text: str | int) -> int:
    """What `--lanes` was given: a number of lanes, or 0, which is the default, for auto."""
    if text in (0, "auto"):
        return 0
    if not str(text).isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"must be auto or a number of lanes, at least 1, got {text!r}")
    return int(text)


Lanes = Annotated[
    int,
    typer.Option(
        parser=lanes_asked,
        metavar="<N|auto>",
        show_default="auto",
        help="Trials that run at the same time, each in a lane; auto is one for each GPU, or one.",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="<HOST:PORT|auto>",
        help="A Ray cluster to run on: one lane on each of its GPUs. --lanes N asks its autoscaler for N.",
    ),
]


_LABEL_VALUE = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9_.-]{0,61}[a-zA-Z0-9])?")  # what Ray takes
_LABEL_KEY = re.compile(rf"([a-zA-Z0-9.-]+/)?{_LABEL_VALUE.pattern}")


def labels_asked(texts: list[str] | None) -> dict[str, str]:
    """What `--label` was given, as KEY=VALUE."""
    pairs = [text.partition("=") for text in texts or ()]
    for key, equals, value in pairs:
        if not (_LABEL_KEY.fullmatch(key) and equals and _LABEL_VALUE.fullmatch(value)):
            raise ConfigError(
                "--label must be KEY=VALUE of letters, digits and . _ - inside, as in ray.io/accelerator-type=L4, "
                f"got {key}{equals}{value}"
            )
    return {key: value for key, _, value in pairs}


Labels = Annotated[
    list[str] | None,
    typer.Option(
        "--label",
        metavar="<KEY=VALUE>",
        help="Only nodes of the cluster that are labelled so; may be repeated.",
    ),
]
OnCpu = Annotated[
    bool, typer.Option("--on-cpu", help="On a cluster: one lane on the processors of each node, and no GPU.")
]


def where_asked(lanes: int, address: str | None, labels: list[str] | None, *, on_cpu: bool) -> "Where":
    """Where to run, of the options that say so."""
    from experiments.where import Where

    return Where(lanes=lanes, address=address, labels=labels_asked(labels), on_cpu=on_cpu)


def above_nothing(text: str | float) -> float:
    """A limit: a number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise typer.BadParameter(f"must be a number above 0, got {text!r}")
    return value


MaxHours = Annotated[
    float | None,
    typer.Option(
        parser=above_nothing,
        metavar="<H>",
        help="Begin no trial that would end later than H hours after this command began; what runs is let end.",
    ),
]
MaxCost = Annotated[
    float | None,
    typer.Option(
        parser=above_nothing,
        metavar="<C>",
        help="Begin no trial with which the sweep would cost more than C, in all of its runs together (needs "
        "price_per_gpu_hour in the config). A trial that takes longer than expected may go past it.",
    ),
]


def limits_asked(max_hours: float | None, max_cost: float | None) -> "Limits":
    """What may be used, of the options that say so."""
    from experiments.budget import Limits

    return Limits(hours=max_hours, cost=max_cost)


def refuse_limits(limits: "Limits") -> None:
    """ConfigError if there are any: nothing is measured."""
    if limits != limits_asked(None, None):
        raise ConfigError("--max-hours and --max-cost are of what is measured, and not of a simulation")


AsJson = Annotated[
    bool, typer.Option("--json", help="One JSON document on standard output; all else on standard error.")
]
PageFile = Annotated[
    Given | None,
    typer.Option("-o", "--output", help="Write a page with figures too.", parser=some_path, metavar="<path>"),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")]


def check_results(results: Place) -> None:
    """StoreError, before anything is done, where no new sweep may be put."""
    if (around := sweep_around(results / "a sweep")) is not None:
        raise StoreError(f"--results may not be in a sweep's folder, got {results}, which is in {around}")


def must_be_named(folder: Place, name: str) -> None:
    """StoreError if a folder does not have the name by which it would be found."""
    if folder.resolve().name != name:
        raise StoreError(f"{folder}: must be named {name} as its config says; rename it back")


def command(*arguments: object) -> str:
    """The command as it was typed, so that what is shown can be typed again."""
    typed = Path(sys.argv[0])
    name = str(typed) if typed.name == "batchyard" else "batchyard"
    return " ".join([name, *(shlex.quote(str(argument)) for argument in arguments)])
