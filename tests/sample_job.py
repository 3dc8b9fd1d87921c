"""A user's job and its test, on the public modules alone; `test_wheel.py` runs it."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
from pyspark.sql import DataFrame

from idlestate import Policy, retain
from idlestate.errors import IdlestateError, RefusedError
from idlestate.sidecar import Address, SidecarClient
from idlestate.state import ValueStateDescriptor, open_backend
from idlestate.testing import FakeClock, RetainHarness

SESSIONS = Policy(idle_min="30m", idle_max="45m")


def sessions(clicks: DataFrame) -> DataFrame:
    """The job."""
    return retain(
        clicks,
        key="user",
        time="event_time",
        aggregates={"n": "count"},
        policy=SESSIONS,
        uid="sessions",
    )


def look_up(place: Address, user: str) -> int:
    """A program beside it."""
    with SidecarClient(place, "sessions") as client:
        return len(client.get_many({"user": [user]}))


def main() -> None:
    """The job's test."""
    start = datetime(2025, 3, 3, tzinfo=UTC)
    harness = RetainHarness(
        {"user": pa.string(), "event_time": pa.timestamp("us", "UTC")},
        key="user",
        time="event_time",
        aggregates={"n": "count"},
        policy=SESSIONS,
    )
    hours = (0, 2)
    harness.batch([{"user": str(at), "event_time": start + timedelta(hours=at)} for at in hours])
    assert [row["user"] for row in harness.finish()] == ["0"]
    with open_backend("heap", clock=FakeClock(0)) as backend:
        visits = backend.get_state(ValueStateDescriptor(name="visits", value_type=pa.int64()))
        try:
            visits.update(1)
        except RefusedError as error:
            kind: IdlestateError = error
            print(kind)


if __name__ == "__main__":
    main()
