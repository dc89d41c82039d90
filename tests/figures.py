"""A figure of the README from a page: a part of it in Chromium, 1,400 pixels wide, as a small PNG.

    python -m tests.figures PAGE '#occupancy' docs/simulate.png

docs/FIGURES.md has the commands of those that are there.
"""

import argparse
import io
import tempfile
from pathlib import Path

from PIL import Image

from tests.chromium import chromium, show

ABOVE_PX = 200  # of a window beside the page
COLOURS = 256  # of a figure with few, the rare ones too: a third of the bytes


def draw(page: Path, selector: str, width_px: int, scheme: str = "light") -> bytes:
    """The part of the page that a CSS selector names, as a PNG. IndexError if there is none."""
    with tempfile.TemporaryDirectory() as profile, chromium(Path(profile)) as browser:
        show(browser, page.absolute(), width_px, scheme)
        whole_px = browser.execute_script("return document.documentElement.scrollHeight")
        browser.set_window_size(width_px, whole_px + ABOVE_PX)
        part = browser.find_elements("css selector", selector)[0]
        shot = Image.open(io.BytesIO(part.screenshot_as_png)).convert("RGB")
    small = io.BytesIO()
    shot.quantize(COLOURS, Image.Quantize.MAXCOVERAGE).save(small, "PNG", optimize=True)
    return small.getvalue()


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m tests.figures", description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("selector", help="of the part that is drawn, such as '#curves'")
    parser.add_argument("figure", type=Path)
    parser.add_argument("--scheme", choices=("light", "dark"), default="light")
    parser.add_argument("--width", type=int, default=1400, help="of the window, in pixels")
    arguments = parser.parse_args()
    arguments.figure.write_bytes(draw(arguments.page, arguments.selector, arguments.width, arguments.scheme))
    print(f"{arguments.figure}: {arguments.figure.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
