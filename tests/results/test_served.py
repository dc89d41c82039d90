"""What the page counts goodput from, counted here as its script does, against goodput itself."""

import numpy as np
import pyarrow as pa
import pytest

from results.goodput import Slo, goodput, highest_s
from results.report import packed
from results.served import Served, least_e2e, served

CONFIGURED = (Slo(ttft_ms=400, tpot_ms=24.8), Slo(e2e_ms=2500), Slo(ttft_ms=300, itl_ms=30))
OTHERS = tuple(
    Slo(ttft_ms=ttft, tpot_ms=tpot, e2e_ms=4000) for ttft in (77, 345.6, 900) for tpot in (24.8, 31)
)


def requests(count: int = 4_000) -> pa.Table:
    """Requests of which a third have the TPOT of a lockstep batch, some one token, and some failed."""
    rng = np.random.default_rng(3)
    ttft_s, tokens = rng.lognormal(-1, 1, count), rng.integers(1, 200, count)
    tpot_s = np.where(rng.random(count) < 0.3, 0.0248, rng.normal(0.03, 0.004, count))
    several = np.where(tokens > 1, tpot_s, np.nan)
    return pa.table(
        {
            "planned_s": np.sort(rng.random(count)) * 100,
            "sent_s": np.zeros(count),
            "status": np.where(rng.random(count) < 0.9, "finished", "failed"),
            "output_tokens": tokens,
            "ttft_s": ttft_s,
            "tpot_s": pa.array(several, from_pandas=True),
            "itl_p99_s": pa.array(several * 1.1, from_pandas=True),
            "e2e_s": ttft_s + (tokens - 1) * tpot_s,
        }
    )


def counted(trial: Served, slo: Slo) -> float:
    ttft, tpot, itl, tokens = (
        np.frombuffer(one, "<u4") for one in (trial.ttft, trial.tpot, trial.itl, trial.tokens)
    )
    e2e_s = least_e2e(ttft, tpot, tokens, *trial.units_s[:2])
    for at, seconds in trial.exact_e2e:
        e2e_s[at] = seconds
    good = np.ones(len(tokens), dtype=bool)
    for key, codes, unit_s in zip(
        ("ttft_ms", "tpot_ms", "itl_ms"), (ttft, tpot, itl), trial.units_s, strict=True
    ):
        if key in slo.limits:
            good &= codes <= np.floor(slo.limits[key] / 1000 / unit_s + 0.5)
    if slo.e2e_ms is not None:
        good &= e2e_s <= highest_s(slo.e2e_ms)
    return float(good.sum()) / trial.offered


def test_shares_are_exact_at_configured_slos_and_within_two_hundredths_of_a_percent_at_others() -> None:
    rows = requests()
    trial = served(rows, CONFIGURED)
    exact = goodput(rows, [*CONFIGURED, *OTHERS])
    for slo in CONFIGURED:
        assert counted(trial, slo) == exact[slo.of("goodput_share")]
    for slo in OTHERS:
        assert counted(trial, slo) == pytest.approx(exact[slo.of("goodput_share")], abs=2e-4)


def test_rows_are_the_finished_ones_by_ttft_in_units_that_are_powers_of_two() -> None:
    rows = requests()
    trial = served(rows, CONFIGURED)
    ttft = np.frombuffer(trial.ttft, "<u4")
    assert trial.offered == rows.num_rows
    assert len(ttft) == rows["status"].to_pylist().count("finished")
    assert (np.diff(ttft.astype(np.int64)) >= 0).all()
    assert all(np.log2(unit_s) % 1 == 0 for unit_s in trial.units_s)
    assert trial.unknown == ()


def test_gaps_are_kept_where_an_slo_limits_them_and_said_to_be_unknown_where_they_are() -> None:
    assert served(requests(50), [Slo(ttft_ms=100)]).itl == b""
    bare = requests(50).drop_columns("itl_p99_s").append_column("itl_p99_s", pa.nulls(50, pa.float64()))
    assert served(bare, [Slo(itl_ms=100)]).unknown == ("itl_ms",)


def test_a_window_without_finished_requests_has_offered_ones_alone() -> None:
    failed = requests(20)
    failed = failed.set_column(2, "status", pa.array(["failed"] * 20))
    trial = served(failed, CONFIGURED)
    assert (trial.offered, trial.ttft, trial.tokens) == (20, b"", b"")


@pytest.mark.parametrize("values", [[-1], [2**32], [0.5]])
def test_what_is_no_whole_number_of_32_bits_is_not_packed(values: list[float]) -> None:
    with pytest.raises(ValueError, match="must be whole numbers from 0 to"):
        packed.pack("block", {"column": np.array(values)})
