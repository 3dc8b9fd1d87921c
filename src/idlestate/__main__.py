"""The command line: `idlestate`, and `python -m idlestate`."""

import sys


def main() -> None:
    """Run a command."""
    try:
        # It takes a while, in which Ctrl-C ends the command as it does later.
        from idlestate.service.cli import main as run  # noqa: PLC0415 - so that it is caught
    except KeyboardInterrupt:
        sys.stderr.write("Aborted!\n")
        sys.exit(1)
    run()


if __name__ == "__main__":
    main()
