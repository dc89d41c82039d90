"""The commands that README.md's section on clusters gives, as they are typed: the journey runs these and no others."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


class Typed:
    """The lines of the section's block, each found by how it begins; `never` are those that nobody asked for."""

    def __init__(self, replaced: Mapping[str, str]) -> None:
        """`replaced`: whole words of the README that stand for something else here."""
        section = README.read_text().split("\n## On a cluster\n", 1)[1].split("\n## ", 1)[0]
        [block] = re.findall(r"```\n(.*?)```", section, flags=re.DOTALL)
        lines = [shlex.split(line, comments=True) for line in block.splitlines() if line]
        self._replaced = dict(replaced)
        self._lines = [words for words in lines if words[0] != "export"]
        self.exported = dict(
            word.split("=", 1) for words in lines if words[0] == "export" for word in words[1:]
        )
        self.never = {shlex.join(words) for words in self._lines}

    def words(self, begin: str, **replaced: str) -> list[str]:
        """The one line that begins so, to be run."""
        [line] = [words for words in self._lines if shlex.join(words).startswith(begin)]
        self.never.discard(shlex.join(line))
        stands_for = self._replaced | replaced
        return [stands_for.get(word, word) for word in line]
