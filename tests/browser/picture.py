"""A picture of a report: `python -m tests.browser.picture REPORT PNG [HEIGHT] [WIDTH] [SCHEME]`."""

import sys
import tempfile
from pathlib import Path

from tests.browser.devtools import Browser, chromium, opened


def main(report: str, png: str, height: str = "0", width: str = "1280", scheme: str = "light") -> None:
    """Picture the top of a report, `height` pixels of it (0: all)."""
    program = chromium()
    if program is None:
        sys.exit("no Chromium on this machine")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, Path(profile))
        try:
            path = Path(report).resolve()
            with opened(browser, path, width=int(width), scheme=scheme) as page:
                whole = page.ask("document.documentElement.scrollHeight")
                high = min(int(height) or whole, whole)
                clip = {"x": 0, "y": 0, "width": int(width), "height": high}
                page.picture(Path(png), clip=clip)
        finally:
            browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
