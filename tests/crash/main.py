"""`make crash N=20`: kill running queries N times, start them again, and compare.

Ends with 1 when a row, a life or a count was lost or doubled, or when fewer than half of the
kills hit a batch in flight (its offsets logged, its commit not).
"""

import argparse
import os
import random
import sys
import tempfile
from pathlib import Path
from time import monotonic

# Behind everything else, so that no room of the project is found by its bare name first.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from tests.crash import sidecar_suite
from tests.crash.crash_input import FILES
from tests.crash.history import RETAIN
from tests.crash.operator_judges import JUDGES
from tests.crash.suite import OPERATORS, Report, carry_out, exit_code, say, until_killed
from tests.quick_spark import quick_home

SEED_BITS = 32


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kills", type=int, nargs="?", default=20)
    parser.add_argument("--seed", type=int, help="repeat the moments of an earlier call")
    parser.add_argument("--at-once", type=int, default=2, help="so many histories side by side")
    parser.add_argument("--keep", type=Path, help="a new folder for everything; else removed")
    parser.add_argument("--backend", choices=["spark", "rocksdb", "heap"], default="spark")
    parser.add_argument(
        *("--operator", "-o"),
        action="append",
        choices=[*JUDGES, RETAIN],
        help="only histories of this operator; several times: of these by turns",
    )
    words = parser.parse_args()
    os.environ.setdefault("SPARK_HOME", str(quick_home()))
    seed = random.SystemRandom().getrandbits(SEED_BITS) if words.seed is None else words.seed
    say(f"seed {seed} (again: ARGS='--seed {seed}')")
    report: Report | sidecar_suite.SidecarReport
    began = monotonic()
    with tempfile.TemporaryDirectory(prefix="idlestate-crash-") as folder:
        place = words.keep or Path(folder)
        if words.backend == "spark":
            next_plan = until_killed(words.kills, random.Random(seed), words.operator or OPERATORS)
            report = carry_out(place, seed, FILES, next_plan, words.at_once)
        else:
            report = sidecar_suite.carry_out(
                place,
                words.backend,
                seed,
                FILES,
                sidecar_suite.until_killed(words.kills, words.operator or sidecar_suite.OPERATORS),
                words.at_once,
            )
    code = exit_code(report)
    say(f"{report}, {monotonic() - began:.0f} s: {'good' if code == 0 else 'FAILED'}")
    return code


if __name__ == "__main__":
    sys.exit(main())
