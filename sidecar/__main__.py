"""`python -m idlestate.sidecar FILE`: runs a sidecar in its own process."""

import argparse
import sys
from pathlib import Path

from idlestate._without_pandas import without_pandas

with without_pandas():
    from idlestate.sidecar.server.serving import serve


def main() -> int:
    """Serve the configuration file of the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m idlestate.sidecar", description=__doc__)
    parser.add_argument("file", type=Path, help="configuration file with a sidecar: section")
    parser.add_argument(
        "--while-input-is-open", action="store_true", help="stop when standard input is closed"
    )
    given = parser.parse_args()
    return serve(given.file, _tell, while_input_is_open=given.while_input_is_open)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - a log or a person reads it


if __name__ == "__main__":
    sys.exit(main())
