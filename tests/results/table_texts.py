"""What the tables of a page say in texts alone, for tests: numbers there would be texts in the CSV too."""

import re


def numbers_as_text(html: str) -> list[str]:
    """Give the cells of the figures' data that begin with a digit and have no stored number."""
    tables = re.findall(r'<details class="data">.*?</details>', html, re.DOTALL)
    assert tables
    return [text for table in tables for text in re.findall(r"<td>([+−-]?\d[^<]*)</td>", table)]
