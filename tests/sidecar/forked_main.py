"""What a forked process runs (`forked_process`): `idlestate` with what it was given."""

import os
import sys
from importlib import import_module
from typing import Any

from idlestate.service.cli import main

given: dict[str, Any] = globals()["given"]
with given["output"] as output:
    os.dup2(output.fileno(), sys.stderr.fileno())
os.environ.clear()
os.environ.update(given["environment"])
os.chdir(given["folder"])
sys.path.append(given["tests"])
import_module("forked_workers").fork_workers()
main(given["arguments"])
