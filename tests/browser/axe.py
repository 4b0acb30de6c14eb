"""What axe-core says against pages, in both themes: `python -m tests.browser.axe AXE.MIN.JS PAGE…`.

`npm install axe-core` puts the file into node_modules/axe-core/. Exit code 1: a page violates a rule.
"""

import sys
import tempfile
from pathlib import Path

from tests.browser.devtools import Browser, chromium, opened


def main(axe: str, *pages: str) -> int:
    """Print each rule that a page violates, with what violates it; how many there are."""
    program, found = chromium(), 0
    if program is None:
        sys.exit("no Chromium on this machine")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, Path(profile))
        try:
            for path in pages:
                for scheme in ("light", "dark"):
                    with opened(browser, Path(path).resolve(), scheme=scheme) as page:
                        page.ask(Path(axe).read_text())
                        for rule, help_text, nodes in page.ask(
                            "axe.run({resultTypes: ['violations']}).then((r) => r.violations.map((v) =>"
                            " [v.id, v.help, v.nodes.map((n) => n.html.slice(0, 160))]))"
                        ):
                            found += 1
                            print(f"{path} ({scheme}): {rule}: {help_text}, {len(nodes)} times: {nodes[0]}")
        finally:
            browser.close()
    return found


if __name__ == "__main__":
    sys.exit(min(main(*sys.argv[1:]), 1))
