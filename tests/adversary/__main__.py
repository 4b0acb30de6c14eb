"""Random runs of a small Kafka, judged by the checker and by a naive judge.

    python -m tests.adversary --runs 100000 --portable 100000 --seed 0 --jobs 2

Of every `CHANGED` histories one is also changed in a way that must not change its verdict
(`tests.adversary.metamorphic`). Of every `WHOLE` runs one goes the public way, with files. A difference is
shrunk and printed. Exit code 0 without differences, else 1.
"""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from tests.adversary.campaign import Result, campaign

CHUNK = 500


def main() -> int:
    """Run the campaign."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=2000, help="recorded runs")
    parser.add_argument("--portable", type=int, default=2000, help="portable histories")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--shown", type=int, default=5, help="differences to shrink and print")
    options = parser.parse_args()
    begin = time.perf_counter()
    work = [
        (first, min(CHUNK, options.seed + many - first), portable)
        for portable, many in ((False, options.runs), (True, options.portable))
        for first in range(options.seed, options.seed + many, CHUNK)
    ]
    total = Result()
    with ProcessPoolExecutor(options.jobs) as pool:
        for done in pool.map(campaign, *zip(*work, strict=True), [options.shown] * len(work)):
            for text in done.shown[: max(0, options.shown - len(total.shown))]:
                print(text, flush=True)
            total.add(done)
    seconds = time.perf_counter() - begin
    print(total.summary())
    print(f"{total.histories} histories in {seconds:.0f} s: {total.histories / seconds:.0f} a second")
    return 1 if total.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
