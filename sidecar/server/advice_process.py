"""A process that analyzes one log: `python -m idlestate.sidecar.server.advice_process`.

The sidecar limits its memory and writes one line of JSON to its standard input: the path of the
log and the fields of the request. The exit code is the outcome (`ADVISED` and the others). Standard
output gets the advice as JSON, standard error the reason for a refusal.
"""

import errno
import json
import sys
import traceback
from collections.abc import Iterator

from idlestate.errors import RefusedError
from idlestate.sidecar.protocol.exit_codes import ADVISED, BROKEN, OUT_OF_MEMORY, REFUSED


def main() -> int:
    """Run; return the exit code."""
    try:
        sys.stdout.write(_advice(sys.stdin.buffer.readline()))
        sys.stdout.flush()
    except Exception as error:  # noqa: BLE001 - its kind is the exit code
        if any(map(_tells_of_memory, _with_causes(error))):
            return OUT_OF_MEMORY
        if isinstance(error, RefusedError):
            sys.stderr.write(str(error))
            return REFUSED
        traceback.print_exc()
        return BROKEN
    return ADVISED


def _advice(line: bytes) -> str:
    # Imported late: Arrow and pandas may exceed the memory limit, too.
    from idlestate.advisor.json_report import json_report  # noqa: PLC0415
    from idlestate.advisor.text_arguments import advise_by_texts  # noqa: PLC0415

    given = json.loads(line)
    return f"{json_report(advise_by_texts(given['log'], **given['fields']))}\n"


def _with_causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _tells_of_memory(error: BaseException) -> bool:
    # A library that does not fit into memory cannot be imported. The advisor reports an error of
    # Arrow as a log that cannot be read, and memory may be its cause.
    is_memory = isinstance(error, MemoryError | ImportError)
    return is_memory or (isinstance(error, OSError) and error.errno == errno.ENOMEM)


if __name__ == "__main__":
    sys.exit(main())
