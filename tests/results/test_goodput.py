"""Goodput by hand: what met an SLO, out of everything that was offered."""

from types import ModuleType
from typing import Any

import pytest

from results.errors import StoreError
from results.goodput import Slo, goodput, make, met, parse, slos_of
from results.metrics import with_metrics

QUICK = {"planned_s": 0.0, "token_s": [0.3, 0.4, 0.5]}  # TTFT 0.3, TPOT 0.1, E2E 0.5
SLOW = {"planned_s": 1.0, "token_s": [1.6, 1.7]}  # TTFT 0.6
UNEVEN = {"planned_s": 2.0, "token_s": [2.1, 2.9]}  # TPOT and ITL 0.8
ALONE = {"planned_s": 3.0, "token_s": [3.4]}  # one token: TTFT and E2E 0.4
FAILED = {"planned_s": 4.0, "status": "failed"}
CUT = {"planned_s": 5.0, "token_s": [5.1], "status": "unfinished"}
REJECTED = {"planned_s": 6.0, "status": "rejected"}
ALL = [QUICK, SLOW, UNEVEN, ALONE, FAILED, CUT, REJECTED]


def measured(made: ModuleType, rows: list[dict[str, Any]]) -> Any:
    return with_metrics(
        made.request_table([made.request_row(**{"index": k, **row}) for k, row in enumerate(rows)])
    )


@pytest.mark.parametrize(
    ("slo", "good"),
    [
        (Slo(ttft_ms=400), [True, False, True, True, False, False, False]),
        (Slo(tpot_ms=100.001), [True, True, False, True, False, False, False]),
        (Slo(itl_ms=500), [True, True, False, True, False, False, False]),
        (Slo(e2e_ms=600), [True, False, False, True, False, False, False]),
        (Slo(ttft_ms=350, e2e_ms=600), [True, False, False, False, False, False, False]),
    ],
)
def test_a_request_meets_an_slo_if_it_finished_within_all_limits(
    made_sweep: ModuleType, slo: Slo, good: list[bool]
) -> None:
    found = met(measured(made_sweep, ALL), slo)
    assert found is not None
    assert found.tolist() == good


def test_goodput_counts_what_failed_among_the_offered(made_sweep: ModuleType) -> None:
    """Two of seven met it, with 3 + 1 tokens; 7 arrivals in 6 s come at 1 a second."""
    slo = Slo(e2e_ms=600)
    found = goodput(measured(made_sweep, ALL), [slo])
    assert found == {
        "goodput_share@e2e_ms=600": pytest.approx(2 / 7),
        "goodput_requests_per_s@e2e_ms=600": pytest.approx(2 / 7),
        "goodput_tokens_per_s@e2e_ms=600": pytest.approx(4 / 7),
    }


def test_where_all_meet_it_goodput_is_the_offered_rate(made_sweep: ModuleType) -> None:
    rows = [{"planned_s": 0.5 * k, "token_s": [0.5 * k + 0.1]} for k in range(9)]
    found = goodput(measured(made_sweep, rows), [Slo(ttft_ms=200)])
    assert list(found.values()) == pytest.approx([1.0, 2.0, 2.0])


def test_all_failed_meets_nothing_and_nothing_offered_is_unknown(made_sweep: ModuleType) -> None:
    slo = Slo(ttft_ms=100)
    failed = measured(made_sweep, [FAILED, REJECTED])
    assert goodput(failed, [slo])["goodput_share@ttft_ms=100"] == 0
    assert set(goodput(failed.slice(0, 0), [slo]).values()) == {None}


def test_a_single_request_has_a_share_and_no_rate(made_sweep: ModuleType) -> None:
    share, requests, tokens = goodput(measured(made_sweep, [QUICK]), [Slo(ttft_ms=500)]).values()
    assert (share, requests, tokens) == (1.0, None, None)


def test_gaps_that_were_not_recorded_leave_their_limit_unknown(made_sweep: ModuleType) -> None:
    bare = {"token_s": None, "first_token_s": 1.0, "last_token_s": 2.0, "output_tokens": 3}
    table = measured(made_sweep, [QUICK, bare])
    assert met(table, Slo(itl_ms=500)) is None
    assert goodput(table, [Slo(itl_ms=500)])["goodput_share@itl_ms=500"] is None
    assert met(table, Slo(tpot_ms=500)) is not None


def test_an_slo_reads_back_from_its_key() -> None:
    slo = Slo(ttft_ms=500, e2e_ms=2000.5)
    assert slo.key == "ttft_ms=500,e2e_ms=2000.5"
    assert parse(slo.key) == slo
    assert slo.text == "TTFT ≤ 500 ms, E2E ≤ 2.0005 s"


@pytest.mark.parametrize(
    ("limit_ms", "text"),
    [
        (0.25, "0.25 ms"),
        (999.5, "999.5 ms"),
        (1000, "1 s"),
        (1234567.8, "1,234.5678 s"),
        (1e9, "1,000,000 s"),
    ],
)
def test_a_limit_is_written_as_it_is(limit_ms: float, text: str) -> None:
    assert Slo(e2e_ms=limit_ms).text == f"E2E ≤ {text}"


@pytest.mark.parametrize("text", ["", "500", "ttft_ms", "ttft_ms=fast", "ttft=5", "ttft_ms=0", "e2e_ms=inf"])
def test_what_is_no_slo_is_refused_in_words(text: str) -> None:
    with pytest.raises(ValueError, match="must"):
        parse(text)


def test_a_sweep_has_one_slo_or_several_or_none() -> None:
    one, two = {"ttft_ms": 500}, {"e2e_ms": 2000, "ttft_ms": None}
    assert slos_of({}) == slos_of({"config": "name: made\n"}) == slos_of({"config": {}}) == ()
    assert slos_of({"config": {"slo": one}}) == (Slo(ttft_ms=500),)
    assert slos_of({"config": {"slo": [one, two, one]}}) == (make(one), Slo(e2e_ms=2000))
    with pytest.raises(StoreError, match=r"config\.slo"):
        slos_of({"config": {"slo": [{"speed": 3}]}})
    with pytest.raises(StoreError, match=r"config\.slo"):
        slos_of({"config": {"slo": 3}})
