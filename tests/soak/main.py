"""`make soak`: an hour of a real query on a compressed clock; fails when something grows.

The query is a `retain` or, with `--operator join`, an interval join whose policies end rows early.
Live keys or rows, bytes for each of them, bytes and files of the checkpoint, memory of the workers
and the driver's JVM and the time of batches must stay flat over the second half (`trend.py` has the
test), and the longest batch, but for very few, must be at most three times the median. Written to
the folder: `samples.csv`, `batches.jsonl`, `curve.svg`, `report.txt`.
"""

import argparse
import shutil
import sys
from pathlib import Path

# Behind everything else, so that no room of the project is found by its bare name first.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from tests.soak.bounds import FULL
from tests.soak.curve import draw
from tests.soak.soak import carry_out, check_worth

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("minutes", type=float, nargs="?", default=60)
    parser.add_argument("--operator", choices=["retain", "join"], default="retain")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "soak")
    words = parser.parse_args()
    shutil.rmtree(words.out, ignore_errors=True)
    seconds = words.minutes * 60
    soak = carry_out(words.out.resolve(), words.operator, "FULL", FULL, seconds=seconds, every_s=3)
    draw(soak, words.out / "curve.svg")
    (words.out / "report.txt").write_text(f"{soak}\n")
    print(f"{soak}\n{words.out}: {'good' if soak.is_good else 'FAILED'}")
    check_worth(soak, 96)
    return 0 if soak.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
