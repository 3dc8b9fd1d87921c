"""A user's job and its test, on the public modules alone; `test_wheel.py` runs it."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from idlestate import Policy, configure, retain
from idlestate.errors import IdlestateError, RefusedError
from idlestate.sidecar import Address, SidecarClient
from idlestate.state import StateTtlConfig, ValueStateDescriptor, open_backend
from idlestate.testing import FakeClock, RetainHarness

SESSIONS = Policy(idle_min="30m", idle_max="45m")
START = datetime(2025, 3, 3, tzinfo=UTC)
CLICKS = [("ada", START), ("bob", START + timedelta(hours=2))]


def sessions(clicks: DataFrame) -> DataFrame:
    """The job."""
    return retain(
        clicks,
        key="user",
        event_time="event_time",
        aggregates={"n": "count"},
        policy=SESSIONS,
        uid="sessions",
    )


def look_up(place: Address, user: str) -> int:
    """A program beside it."""
    with SidecarClient(place, "sessions") as client:
        return len(client.get_many({"user": [user]}))


def check() -> None:
    """The test of the job, without a JVM, and a misuse of keyed state."""
    harness = RetainHarness(
        {"user": pa.string(), "event_time": pa.timestamp("us", "UTC")},
        key="user",
        event_time="event_time",
        aggregates={"n": "count"},
        policy=SESSIONS,
    )
    harness.batch([{"user": user, "event_time": moment} for user, moment in CLICKS])
    assert [row["user"] for row in harness.finish()] == ["ada"]
    with open_backend("heap", clock=FakeClock(0)) as backend:
        ttl = StateTtlConfig(ttl=timedelta(hours=1))
        visits = backend.get_state(
            ValueStateDescriptor(name="visits", value_type=pa.int64(), ttl=ttl)
        )
        try:
            visits.update(1)
        except RefusedError as error:
            kind: IdlestateError = error
            print(kind)


def main() -> None:
    """The job itself, on a batch DataFrame."""
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = configure(builder.config("spark.sql.shuffle.partitions", 1).getOrCreate())
    clicks = spark.createDataFrame(CLICKS, "user string, event_time timestamp")
    for row in sessions(clicks).where("change = 'expire'").collect():
        print(row["user"], row["n"], row["reason"])
    spark.stop()


if __name__ == "__main__":
    main()
