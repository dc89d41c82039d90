"""Parts that are read side by side come in order, with word of how far."""

import pytest

from experiments import reading


def test_parts_come_in_order_and_an_error_comes_through(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(reading.side_by_side(lambda part: 2 * part, range(50))) == [2 * part for part in range(50)]
    assert capsys.readouterr().err == ""
    with pytest.raises(ZeroDivisionError):
        list(reading.side_by_side(lambda part: 1 / part, [1, 0, 2]))


def test_what_takes_long_says_how_far_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "QUIET_S", 0.0)
    list(reading.side_by_side(str, range(3)))
    assert capsys.readouterr().err.splitlines() == ["read 1 of 3 parts", "read 2 of 3 parts"]
