"""A folder of generated parquet files that is either complete or absent.

The files are written to a temporary folder, which is renamed once it contains the last file and the
marker `_done.json`. The marker records the recipe and the length of each file, so that a second
call can tell a complete folder from a damaged one without reading it. Spark ignores files whose
names start with an underscore.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from idlestate.config.plurals import counted

DONE = "_done.json"
FORMAT = 1  # increased when the generator makes other files from a recipe


@dataclass(frozen=True, slots=True)
class Recipe:
    """The arguments of the generator: equal recipes give equal bytes."""

    events: int
    seed: int
    files: int
    format: int = FORMAT

    def in_words(self) -> str:
        """The recipe as text for messages."""
        events, files = counted(self.events, "row"), counted(self.files, "file")
        return f"{events} in {files}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class ClickFolder:
    """A finished folder.

    Attributes:
        path: its path.
        recipe: what it was made from.
        flaws: rows that a pipeline with a delay of ten minutes rejects or finds late, by
            reason: `null_time`, `too_old`, `too_far_ahead`, `late`.
        sizes: bytes of each data file, by its name.
        created: whether this call created it; False if it existed.
    """

    path: Path
    recipe: Recipe
    flaws: Mapping[str, int] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    created: bool = False

    def parquet_files(self) -> list[Path]:
        """Its data files, in reading order."""
        return sorted(self.path.glob("*.parquet"))


Parts = tuple[Sequence[tuple[int, pa.Table]], dict[str, int]]


def write_folder(
    out: Path, recipe: Recipe, draw: Callable[[], Parts], *, overwrite: bool = False
) -> ClickFolder:
    """Create `out` from the result of `draw`, unless it exists and is complete.

    Args:
        out: the folder to create.
        recipe: the arguments of `draw`.
        draw: called if there is something to write. Returns one (modification time in ms, rows)
            per file, and the flaws by reason.
        overwrite: replace a folder that was created from another recipe.

    Raises:
        FileExistsError: `out` holds something that this function did not write, or was made from
            another recipe and may not be replaced.
    """
    found = _read_done(out)
    if found is not None and found.recipe == recipe:
        if _is_whole(found):
            return found
    elif found is not None and not overwrite:
        raise FileExistsError(
            f"{out} holds other clicks ({found.recipe.in_words()}): pass --overwrite to replace "
            "them, or choose another folder"
        )
    _refuse_foreign(out)
    parts, flaws = draw()
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = out.parent / f".{out.name}.part-{os.getpid()}"
    try:
        sizes = _write(draft, recipe, parts, flaws)
        _put_in_place(draft, out)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return ClickFolder(out, recipe, flaws, sizes, created=True)


def _write(
    draft: Path, recipe: Recipe, parts: Sequence[tuple[int, pa.Table]], flaws: dict[str, int]
) -> dict[str, int]:
    """Write all files; return their sizes by name."""
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    sizes = {}
    width = max(4, len(str(len(parts))))
    for number, (modified_ms, rows) in enumerate(parts):
        path = draft / f"clicks-{number:0{width}d}.parquet"
        pq.write_table(rows, path, compression="zstd")
        os.utime(path, ns=(modified_ms * 1_000_000,) * 2)
        sizes[path.name] = path.stat().st_size
    done = {"recipe": asdict(recipe), "flaws": flaws, "sizes": sizes}
    (draft / DONE).write_text(json.dumps(done, indent=2) + "\n", encoding="utf-8")
    return sizes


def _put_in_place(draft: Path, out: Path) -> None:
    """Rename `draft` to `out`, after moving our older folder out of the way."""
    old = out.parent / f".{out.name}.old-{os.getpid()}"
    with contextlib.suppress(FileNotFoundError):
        out.rename(old)
    try:
        draft.rename(out)
    finally:
        shutil.rmtree(old, ignore_errors=True)


def _read_done(out: Path) -> ClickFolder | None:
    """The folder at `out` as its marker describes it; None without a readable marker."""
    try:
        done = json.loads((out / DONE).read_text(encoding="utf-8"))
        sizes = {str(name): int(size) for name, size in done["sizes"].items()}
        return ClickFolder(out, Recipe(**done["recipe"]), done["flaws"], sizes)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _is_whole(folder: ClickFolder) -> bool:
    """Whether every file has the length in the marker."""
    try:
        return all((folder.path / name).stat().st_size == n for name, n in folder.sizes.items())
    except OSError:
        return False


def _refuse_foreign(out: Path) -> None:
    """Raise unless `out` may be replaced: it is absent, empty, or was created here."""
    if not out.exists() and not out.is_symlink():
        return
    if out.is_dir() and not out.is_symlink():
        if (out / DONE).is_file() or not any(out.iterdir()):
            return
        what = "holds files that the generator did not write"
    else:
        what = "is not a folder"
    raise FileExistsError(f"{out} {what}: choose another folder, or remove it first")
