"""What theory says, for a terminal: a table a topic, at most 80 columns wide.

Rows that say the same are one row: settings of equal capacity, and backends with the same step times.
"""

import textwrap
from collections.abc import Callable, Iterator, Sequence

from experiments.explain.explanation import Explanation
from experiments.explain.memory import PaddedMemory, budget_line, trigger_lines
from experiments.explain.setting_theory import Point, Theory
from experiments.text_table import Column, lines
from results.report import numbers

WIDTH = 80
RATES_A_TABLE = 6  # more rates go on in another table
WIDEST_ROW = 11  # columns; more batch sizes stand below each other
ALL = "all"
Cell = Callable[[Theory, Point], str]
Label = Callable[[Theory], str]


def text(explanation: Explanation) -> Iterator[str]:
    """All lines, topic after topic."""
    work = explanation.work
    yield from _wrapped(
        f"{explanation.name}: prompts of {numbers.number(work.prompts.mean())} tokens on average, outputs of "
        f"{numbers.number(work.outputs.mean())}, the longest {work.outputs.maximum}"
    )
    yield from _bases(explanation)
    yield from ("", *_steps(explanation), "", *_efficiency(explanation), "", *_capacities(explanation))
    if explanation.memory is not None:
        yield from ("", *_memory(explanation.memory))
    how = " (rates: auto, from these step times)" if explanation.automatic else ": overloaded from 1 on"
    families = _families(explanation)
    yield from ("", f"Utilisation ρ = λ ÷ μ by arrival rate λ{how}")
    yield from _by_rate(explanation, families, explanation.theories, lambda _, at: f"{at.utilisation:.2f}")
    yield from ("", "Wait in queue of M/M/1, ρ ÷ (μ − λ): a rough guide; – where the queue grows")
    yield from _by_rate(explanation, families, explanation.theories, lambda _, at: seconds(at.wait_s))
    for title, strategy, cell in _TOPICS:
        chosen = [one for one in explanation.theories if one.setting.strategy == strategy]
        if chosen:
            yield from ("", title, *_by_rate(explanation, _label, chosen, cell))
            yield from (line for room in _rooms(chosen) for line in _wrapped(f"  {room}"))


def seconds(value: float | None) -> str:
    """Two figures with their unit."""
    return numbers.duration(None if value is None else float(f"{value:.2g}"))


def _batches(theory: Theory, at: Point) -> str:
    return f"{at.idle_batch:.1f}/{at.batch}"


def _in_flight(theory: Theory, at: Point) -> str:
    return f"{at.batch} of {theory.setting.max_batch_size}{'+' if at.utilisation > 1 else ''}"


def _rooms(theories: Sequence[Theory]) -> Iterator[str]:
    """Where the KV cache, not the slots, bounds what runs together."""
    for theory in theories:
        if theory.room < theory.setting.max_batch_size:
            setting = f"{theory.setting.backend}, {theory.setting.label}"
            yield f"{setting}: {theory.setting.max_batch_size} at most, and KV room for {theory.room}"


_TOPICS: tuple[tuple[str, str, Cell], ...] = (
    (
        "Wait of naive until its batch is full, on average: (N − 1) ÷ 2λ",
        "naive",
        lambda _, at: seconds(at.fill_wait_s),
    ),
    ("Batch of dynamic, engine always free / never free: about the larger of the two", "dynamic", _batches),
    (
        "Requests in flight with continuous (Little's law), of its slots; +: more wanted",
        "continuous",
        _in_flight,
    ),
)


def _bases(explanation: Explanation) -> Iterator[str]:
    for said, backends in explanation.backends_by_basis.items():
        yield from _wrapped(f"step times of {', '.join(backends)}: {said}")
    shapes = [basis.shape for basis in explanation.bases.values() if basis.shape is not None]
    if shapes and shapes[0].sliding_window:
        yield from _wrapped(
            f"Attention slides over {shapes[0].sliding_window} tokens: the cache of longer contexts is smaller."
        )


def _steps(explanation: Explanation) -> list[str]:
    titles = ("backend", "batch", "step", "tokens/s", "× of one")
    rows = [
        (
            backend,
            str(step.batch),
            numbers.duration(step.step_s),
            _rounded(step.tokens_per_s),
            f"{step.gain:.1f}",
        )
        for backend in explanation.bases
        for step in explanation.steps(backend)
    ]
    context = numbers.number(explanation.work.context_tokens)
    title = f"Decoding by batch size, each sequence with {context} tokens of context"
    return [title, *_table(titles, _merged(explanation, rows), right=1)]


def _efficiency(explanation: Explanation) -> list[str]:
    title = "Useful share of a lockstep batch's decoding, E[o] ÷ E[max o of B]"
    shares = [(str(size), f"{100 * explanation.efficiency(size):.0f} %") for size in explanation.batches]
    if len(shares) >= WIDEST_ROW:
        return [title, *_table(("batch", "useful"), shares, right=0)]
    sizes, useful = zip(*shares, strict=True)
    return [title, *_table(("batch", *sizes), [("useful", *useful)], right=1)]


def _capacities(explanation: Explanation) -> list[str]:
    titles, label = ["backend", "strategies", "requests/s", "tokens/s"], _families(explanation)
    rooms = any(theory.kv_tokens is not None for theory in explanation.theories)
    if rooms:
        titles += ["KV tokens", "most at once"]
    rows = []
    for theory in explanation.theories:
        row = [
            theory.setting.backend,
            label(theory),
            numbers.number(theory.capacity),
            _rounded(theory.tokens_per_s),
        ]
        if rooms:
            row += [_count(theory.kv_tokens), _count(theory.kv_limit)]
        rows.append(tuple(row))
    title = "Capacity μ, what each can sustain" + (
        ", and how many requests the KV cache holds" if rooms else ""
    )
    return [title, *_table(titles, _merged(explanation, rows), right=2)]


def _count(tokens: int | None) -> str:
    return numbers.NOTHING if tokens is None else f"{tokens:,}"


def _memory(memory: PaddedMemory) -> Iterator[str]:
    yield f"Largest padded batch by prompt length, {memory.max_new_tokens} new tokens a row"
    rows = [
        (f"{row.prompt_tokens:,}", numbers.size(row.row_bytes), "–" if row.most is None else f"{row.most:,}")
        for row in memory.rows
    ]
    yield from _table(("prompt", "a row", "rows"), rows, right=0)
    for line in (budget_line(memory), *trigger_lines(memory)):
        yield from _wrapped(line)


def _by_rate(explanation: Explanation, label: Label, theories: Sequence[Theory], cell: Cell) -> Iterator[str]:
    for first in range(0, len(explanation.rates), RATES_A_TABLE):
        rates = explanation.rates[first : first + RATES_A_TABLE]
        titles = ("backend", "strategies", *(f"{numbers.number(rate)}/s" for rate in rates))
        rows = [
            (theory.setting.backend, label(theory), *(cell(theory, theory.at(rate)) for rate in rates))
            for theory in theories
        ]
        yield from _table(titles, _merged(explanation, rows), right=2)


def _label(theory: Theory) -> str:
    return theory.setting.label


def _families(explanation: Explanation) -> Label:
    """The strategies that release batch by batch have one capacity, whatever their waits are."""
    bound = [one.setting.strategy for one in explanation.theories if one.setting.lockstep_bound]
    together = ", ".join(dict.fromkeys(bound))

    def label(theory: Theory) -> str:
        kind = together if theory.setting.lockstep_bound else theory.setting.strategy
        return f"{kind} · {theory.setting.max_batch_size}"

    return label


def _merged(explanation: Explanation, rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Rows that differ in the backend alone as one, in their first place."""
    backends: dict[tuple[str, ...], dict[str, None]] = {}
    for backend, *rest in rows:
        backends.setdefault(tuple(rest), {})[backend] = None
    everyone = set(explanation.bases)
    return [
        (ALL if len(everyone) > 1 and set(found) == everyone else ", ".join(found), *rest)
        for rest, found in backends.items()
    ]


def _rounded(tokens_per_s: float) -> str:
    return f"{tokens_per_s:,.0f}" if tokens_per_s >= 100 else numbers.number(tokens_per_s)


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, right: int) -> list[str]:
    columns = [
        Column(title=title, right=place >= right, least=None if place >= right else 8, turn=place)
        for place, title in enumerate(titles)
    ]
    return [f"  {line}" for line in lines(columns, rows, WIDTH - 2)]
