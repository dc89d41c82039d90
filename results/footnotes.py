"""What puts sentences in doubt, said once below them: notes, and the marks ¹ ² ³ that refer to them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from results.findings import Sentence

NO_BREAK = "\u00a0"
_DIGITS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def with_marks(sentences: Sequence[Sentence]) -> tuple[list[Sentence], list[str]]:
    """Give the sentences, each with its marks at the end, and the notes, each once and with its mark before."""
    notes = list(dict.fromkeys(note for sentence in sentences for note in sentence.notes))
    marks = {note: str(number).translate(_DIGITS) for number, note in enumerate(notes, start=1)}
    marked = [
        replace(sentence, text=f"{sentence.text} {_together(sentence, marks)}".rstrip())
        for sentence in sentences
    ]
    return marked, [f"{mark} {note}" for note, mark in marks.items()]


def _together(sentence: Sentence, marks: Mapping[str, str]) -> str:
    """Its marks in order, on one line."""
    return NO_BREAK.join(mark for note, mark in marks.items() if note in sentence.notes)
