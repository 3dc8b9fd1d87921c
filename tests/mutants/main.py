"""`make mutants`: break the rule in every known way; each break must make a test fail.

The project is copied to a temporary folder once. Each mutation (mutations.py) edits one file of
the copy, the tests of `make test` that need no JVM run until something fails, and the file is put
back. Ends with 1 when a mutant survives, or when the text a mutation replaces is no longer there.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.mutants.mutation import Mutation  # noqa: E402 - found from the root
from tests.mutants.mutations import MUTATIONS  # noqa: E402

NOT_COPIED = shutil.ignore_patterns(
    *(".git", ".venv", "build", "dist", "__pycache__", ".*_cache", ".hypothesis", "*.egg-info"),
    *("spark-warehouse", "metastore_db", "artifacts"),
)
LEAST_LIMIT_S = 120
PATIENCE = 10
"""A mutant may loop for ever: it gets this many times what the tests take without it."""


class Copy:
    """A copy of the project in which source files can be edited and tests run."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        shutil.copytree(ROOT, self.root, symlinks=True, ignore=NOT_COPIED)
        self.environment = os.environ | {
            "PYTHONPATH": str(self.root / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "IDLESTATE_HYPOTHESIS": "mutants",
        }
        self.limits_s: dict[tuple[str, ...], float] = {}

    def imports_itself(self) -> bool:
        """Whether the copy's tests run the copy's source, not that of the project."""
        program = "import idlestate.backends; print(idlestate.backends.__file__)"
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return Path(done.stdout.strip()).is_relative_to(self.root)

    def first_failure(self, suites: tuple[str, ...]) -> str | None:
        """The first test of these suites that fails, None when all pass."""
        pytest = Path(sys.executable).with_name("pytest")
        command = [
            pytest,
            "-x",
            "-q",
            "-m",
            "not spark and not long",
            "-p",
            "no:cacheprovider",
            *suites,
        ]
        limit_s = self.limits_s.get(suites)
        try:
            done = subprocess.run(
                command,
                cwd=self.root,
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"no end within {limit_s:.0f} s"
        if done.returncode == 0:
            return None
        if found := re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE):
            return found[1]
        return f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"

    def try_mutation(self, mutation: Mutation) -> tuple[str, str]:
        """A verdict (killed, survived, no such text) and what brought it about."""
        try:
            path = mutation.file(self.root)
        except LookupError as error:
            return "no such text", str(error)
        source = path.read_text()
        path.write_text(source.replace(mutation.old, mutation.new))
        try:
            failure = self.first_failure(mutation.suites)
        finally:
            path.write_text(source)
        return ("killed", failure) if failure else ("survived", "no test fails")


def main(words: list[str]) -> int:
    """Try the mutations whose names contain one of the words; all without words."""
    chosen = [each for each in MUTATIONS if not words or any(word in each.name for word in words)]
    if not chosen:
        print(f"no mutation is named like {words}; there are:")
        print("\n".join(each.name for each in MUTATIONS))
        return 1
    with tempfile.TemporaryDirectory(prefix="idlestate-mutants-") as folder:
        copy = Copy(Path(folder))
        if not copy.imports_itself():
            print("the copy imports another idlestate: is an older one installed?")
            return 1
        print(f"{len(chosen)} mutants; first the source as it is, which must pass", flush=True)
        for suites in dict.fromkeys(each.suites for each in chosen):
            began_s = monotonic()
            if failure := copy.first_failure(suites):
                print(f"without any mutation this fails: {failure}")
                return 1
            copy.limits_s[suites] = max(LEAST_LIMIT_S, PATIENCE * (monotonic() - began_s))
        verdicts, width = [], max(len(each.name) for each in chosen)
        for mutation in chosen:
            verdict, why = copy.try_mutation(mutation)
            verdicts.append(verdict)
            print(f"{verdict:<12}  {mutation.name:<{width}}  {why}", flush=True)
    killed = verdicts.count("killed")
    print(f"{killed} of {len(verdicts)} mutants killed")
    return 0 if killed == len(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
