"""Footnotes: each once, with marks that lead to it."""

from results.findings import Sentence
from results.footnotes import NO_BREAK, with_marks


def sentence(text: str, *notes: str) -> Sentence:
    return Sentence(kind="policy", base="a", other="b", text=text, notes=notes)


def test_a_note_that_sentences_share_stands_there_once() -> None:
    marked, notes = with_marks(
        [sentence("One.", "Gated.", "Short."), sentence("Two."), sentence("Three.", "Late.", "Gated.")]
    )
    assert [one.text for one in marked] == [f"One. ¹{NO_BREAK}²", "Two.", f"Three. ¹{NO_BREAK}³"]
    assert notes == ["¹ Gated.", "² Short.", "³ Late."]


def test_marks_have_as_many_digits_as_they_need() -> None:
    _, notes = with_marks([sentence("All.", *(f"Note {number}." for number in range(1, 13)))])
    assert notes[8:] == ["⁹ Note 9.", "¹⁰ Note 10.", "¹¹ Note 11.", "¹² Note 12."]
