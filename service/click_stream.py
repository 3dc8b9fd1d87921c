"""The generated click stream for the main job: synthetic, seeded, with realistic gaps.

A day of visits to a news site. A visitor's *session* starts with a click and continues after gaps
distributed like those of the public Globo.com click data: half are at most 30 seconds (reading), a
tenth is longer than 8 minutes (a pause), one in a hundred is longer than an hour and a half (gone,
and back again). Over the day, session starts follow the hours at which visitors are awake.

The rows are those of a real collector, with flaws: clicks whose clock was not set (null or 1970),
clicks from a clock that runs far ahead, and clicks that arrive long after the file of their time
was closed. Apart from such late rows, a file contains the clicks of its slice of the day in order
of arrival: no click of a session is in a later file than a younger one. So results do not depend
on the number of files.

Numpy draws everything as arrays; the same seed gives the same bytes.
"""

import itertools
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.service.click_folder import ClickFolder, Recipe, write_folder

Ints = npt.NDArray[np.int64]

SCHEMA = pa.schema(
    [
        ("event_time", pa.timestamp("us", tz="UTC")),
        ("session_id", pa.string()),
        ("user_id", pa.int64()),
        ("page", pa.string()),
        ("dwell_ms", pa.int64()),
    ]
)

DEFAULT_EVENTS = 1_000_000
MAX_EVENTS = 100_000_000  # the day is drawn in memory
DEFAULT_SEED = 20_250_303
DEFAULT_FILES = 24
MAX_FILES = 24 * 60

DAY_MS = 24 * 3_600_000
START_MS = 1_740_960_000_000  # Monday 2025-03-03 00:00:00 UTC

# Gaps between two clicks of one session: (share of shorter gaps, milliseconds). From the median on,
# these are the quantiles of the public data; below it, a reader's pace, since the data sets last
# clicks to exactly 30 s. Interpolation is linear in the logarithm.
GAP_QUANTILES = (
    (0.000, 1_000),
    (0.050, 4_000),
    (0.250, 14_000),
    (0.500, 30_000),
    (0.750, 144_000),
    (0.900, 464_000),
    (0.950, 1_173_000),
    (0.990, 6_596_000),
    (0.999, 56_850_000),
    (1.000, DAY_MS),
)
CLICKS_PER_SESSION = 2.85  # as in the public data, in which every session has at least two
SESSIONS_PER_USER = 3.2

# Session starts by hour of the day: night, breakfast, lunch, evening.
ARRIVALS_BY_HOUR = (
    *(42, 28, 20, 16, 16, 24, 46, 78, 100, 104, 102, 106),
    *(118, 116, 106, 102, 104, 110, 118, 128, 134, 124, 98, 66),
)

SECTIONS = ("world", "city", "sport", "business", "science", "culture", "weather", "opinion")
PAGES = 2_000
PAGE_SKEW = 2.2  # a larger value concentrates clicks on the first pages
USER_SKEW = 1.4

# Flaws, in rows per million: a few tens of each in the default stream.
NULL_TIME_PER_MILLION = 40
TOO_OLD_PER_MILLION = 25
TOO_FAR_AHEAD_PER_MILLION = 30
LATE_PER_MILLION = 60
CENTURY_MS = 100 * 365 * DAY_MS
# A late row arrives in a file that begins at least this long after the row's own time, so it is
# late for every delay up to ten minutes.
LATE_BY_MS = 20 * 60_000
LATE_SPREAD_MS = 90 * 60_000

DWELL_MEDIAN_MS = 21_000
DWELL_SIGMA = 0.9
DWELL_NULL_SHARE = 0.03
TRANSPORT_MEAN_MS = 1_500  # between the click and its line in the collector's file


@dataclass(frozen=True, slots=True)
class _Clicks:
    """One entry per click; the clicks of a session are adjacent and in order of time."""

    session: Ints  # index of the session
    time_ms: Ints  # since the start of the day
    gap_ms: Ints  # to the session's next click; the whole day after its last


@dataclass(frozen=True, slots=True)
class _Delivery:
    """The file and the event time of each click."""

    file: Ints
    arrival_ms: Ints
    stamp_ms: Ints  # since the epoch
    has_stamp: npt.NDArray[np.bool_]
    flaws: dict[str, int]


def generate_clicks(
    out: Path,
    events: int = DEFAULT_EVENTS,
    seed: int = DEFAULT_SEED,
    files: int = DEFAULT_FILES,
    *,
    overwrite: bool = False,
) -> ClickFolder:
    """Write the click stream as parquet files to `out`, unless it is already there.

    The folder appears complete or not at all, and a second call with the same arguments does
    nothing. One file is one micro-batch; names and modification times are in reading order.

    Args:
        out: the folder to create.
        events: rows in all files, including flawed ones.
        seed: the same seed, events and files give the same bytes.
        files: the number of equal slices of the day; 24 is one per hour.
        overwrite: replace the result of an earlier call with other arguments. A folder with
            other content is never replaced.

    Raises:
        ValueError: events, seed or files are out of range.
        FileExistsError: `out` holds something that this function did not write, or was made
            with other arguments and may not be replaced.
    """
    if not 1 <= events <= MAX_EVENTS:
        raise ValueError(f"events must be from 1 to {MAX_EVENTS}, not {events}")
    if seed < 0:
        raise ValueError(f"seed must not be negative, not {seed}")
    if not 1 <= files <= MAX_FILES:
        raise ValueError(f"files must be from 1 to {MAX_FILES} (one a minute), not {files}")
    recipe = Recipe(events=events, seed=seed, files=files)
    return write_folder(out, recipe, lambda: _draw(recipe), overwrite=overwrite)


def _draw(recipe: Recipe) -> tuple[list[tuple[int, pa.Table]], dict[str, int]]:
    """One (modification time in ms, rows) per file, and the number of rows by flaw."""
    rng = np.random.default_rng(recipe.seed)
    clicks = _draw_clicks(rng, recipe.events)
    delivery = _deliver(rng, clicks, recipe.files)
    table = _as_table(rng, clicks, delivery)

    order = np.lexsort((delivery.arrival_ms, delivery.file))
    table = table.take(pa.array(order))
    edges = np.searchsorted(delivery.file[order], np.arange(recipe.files + 1))
    slice_ms = DAY_MS / recipe.files
    parts = [
        (START_MS + round((index + 1) * slice_ms), table.slice(begin, end - begin))
        for index, (begin, end) in enumerate(itertools.pairwise(edges))
    ]
    return parts, delivery.flaws


def _draw_clicks(rng: np.random.Generator, events: int) -> _Clicks:
    """Exactly `events` clicks within the day: whole sessions, except for the last one."""
    sessions = math.ceil(events / CLICKS_PER_SESSION * 1.15) + 8
    clicks = _draw_sessions(rng, sessions)
    while len(clicks.session) < events:
        sessions *= 2
        clicks = _draw_sessions(rng, sessions)
    return _Clicks(clicks.session[:events], clicks.time_ms[:events], clicks.gap_ms[:events])


def _draw_sessions(rng: np.random.Generator, sessions: int) -> _Clicks:
    """The clicks of this many sessions; those after the end of the day are dropped."""
    first_ms = _arrivals(rng, sessions)
    gaps = rng.geometric(1 / (CLICKS_PER_SESSION - 1), sessions)
    ends = np.cumsum(gaps + 1)
    starts = ends - gaps - 1
    session = np.repeat(np.arange(sessions), gaps + 1)

    step_ms = _gaps(rng, int(ends[-1]))
    gap_ms = np.append(step_ms[1:], DAY_MS)
    gap_ms[ends - 1] = DAY_MS
    # A running sum over all clicks, shifted so that each session starts at its own first click.
    step_ms[starts] = 0
    total_ms = np.cumsum(step_ms)
    time_ms = total_ms + (first_ms - total_ms[starts])[session]

    inside = time_ms < DAY_MS
    return _Clicks(session[inside], time_ms[inside], gap_ms[inside])


def _arrivals(rng: np.random.Generator, n: int) -> Ints:
    """Session starts in ms of the day: the inverse of the day's curve, minute by minute."""
    minutes = np.arange(24 * 60 + 1)
    by_hour = (*ARRIVALS_BY_HOUR, ARRIVALS_BY_HOUR[0])
    weight = np.interp(minutes, np.arange(25) * 60, by_hour)
    share = np.concatenate([[0.0], np.cumsum((weight[1:] + weight[:-1]) / 2)])
    drawn: Ints = np.interp(rng.random(n), share / share[-1], minutes * 60_000.0).astype(np.int64)
    return drawn


def _gaps(rng: np.random.Generator, n: int) -> Ints:
    """Gaps in ms by the inverse of their distribution."""
    share, gap_ms = np.array(GAP_QUANTILES).T
    drawn: Ints = np.exp(np.interp(rng.random(n), share, np.log(gap_ms))).astype(np.int64)
    return drawn


def _deliver(rng: np.random.Generator, clicks: _Clicks, files: int) -> _Delivery:
    """The file of each click, and the flaws of a few of them."""
    n = len(clicks.time_ms)
    slice_ms = DAY_MS / files
    arrival_ms = clicks.time_ms + rng.exponential(TRANSPORT_MEAN_MS, n).astype(np.int64)
    file = (clicks.time_ms / slice_ms).astype(np.int64)
    stamp_ms = START_MS + clicks.time_ms
    has_stamp = np.ones(n, dtype=np.bool_)

    unlucky = rng.permutation(n)
    null, unlucky = _split(unlucky, n, NULL_TIME_PER_MILLION)
    has_stamp[null] = False

    old, unlucky = _split(unlucky, n, TOO_OLD_PER_MILLION)
    stamp_ms[old] = rng.integers(0, 3_600_000, len(old))  # an hour or less after power-on, in 1970

    ahead, unlucky = _split(unlucky, n, TOO_FAR_AHEAD_PER_MILLION)
    stamp_ms[ahead] += CENTURY_MS

    late_by_ms = slice_ms + LATE_BY_MS + LATE_SPREAD_MS * rng.random(n)
    unlucky = unlucky[(clicks.time_ms + late_by_ms)[unlucky] < DAY_MS]
    late, _ = _split(unlucky, n, LATE_PER_MILLION)
    arrival_ms[late] = (clicks.time_ms + late_by_ms)[late].astype(np.int64)
    file[late] = (arrival_ms[late] / slice_ms).astype(np.int64)

    flaws = {"null_time": len(null), "too_old": len(old), "too_far_ahead": len(ahead)}
    return _Delivery(file, arrival_ms, stamp_ms, has_stamp, flaws | {"late": len(late)})


def _split(rows: Ints, events: int, per_million: int) -> tuple[Ints, Ints]:
    """The first few of `rows`, and the rest; even a small stream has one flaw of each kind."""
    count = min(math.ceil(events * per_million / 1e6), events // 100)
    return rows[:count], rows[count:]


def _as_table(rng: np.random.Generator, clicks: _Clicks, delivery: _Delivery) -> pa.Table:
    """The columns, in the order of `clicks`."""
    n = len(clicks.session)
    sessions = int(clicks.session[-1]) + 1
    users = math.ceil(sessions / SESSIONS_PER_USER)
    user = 1 + (users * rng.random(sessions) ** USER_SKEW).astype(np.int64)
    page = (PAGES * rng.random(n) ** PAGE_SKEW).astype(np.int64)
    dwell_ms = rng.lognormal(math.log(DWELL_MEDIAN_MS), DWELL_SIGMA, n).astype(np.int64)
    dwell_unknown = rng.random(n) < DWELL_NULL_SHARE
    names = pa.array([f"/{SECTIONS[i % len(SECTIONS)]}/{i:04d}" for i in range(PAGES)])
    stamp_type = SCHEMA.field("event_time").type
    ids = _hexadecimal(_scatter(np.arange(sessions), rng.integers(2**63)))
    return pa.table(
        [
            pa.array(delivery.stamp_ms * 1000, stamp_type, mask=~delivery.has_stamp),
            ids.take(pa.array(clicks.session)),
            pa.array(user[clicks.session]),
            names.take(pa.array(page)),
            pa.array(np.minimum(dwell_ms, clicks.gap_ms), mask=dwell_unknown),
        ],
        schema=SCHEMA,
    )


def _scatter(numbers: Ints, salt: np.int64) -> npt.NDArray[np.uint64]:
    """Distinct numbers as distinct 64-bit values in no visible order: the factor is odd."""
    return (numbers.astype(np.uint64) + np.uint64(salt)) * np.uint64(0x9E37_79B9_7F4A_7C15)


def _hexadecimal(values: npt.NDArray[np.uint64]) -> pa.Array:
    """Each value as 16 hexadecimal digits."""
    digits = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
    octets = values.astype(">u8").view(np.uint8)
    text = digits[np.column_stack([octets >> 4, octets & 15])]
    offsets = np.arange(len(values) + 1, dtype=np.int32) * 16
    return pa.StringArray.from_buffers(
        len(values), pa.py_buffer(offsets), pa.py_buffer(text.tobytes())
    )
