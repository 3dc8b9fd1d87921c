import math
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

START_US = 1_700_000_000_000_000
MINUTE_US = 60_000_000
KEYS = 20_000
FILES = 4


def clicks(file: int) -> list[tuple[int, int]]:
    """Time and user of each click of a file; a tenth of the users come in the first one only."""
    found = []
    for at in range(KEYS // 2):
        user = (at * 7 + file * 3) % KEYS
        early = user % 10 == 0
        if early and file:
            continue
        minute = 0 if early else 120 + 3 * file
        found.append((START_US + minute * MINUTE_US + at, user))
    return found


@pytest.fixture(scope="session")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of clicks; Spark takes its files in the order of their names."""
    folder = tmp_path_factory.mktemp("cluster") / "events"
    folder.mkdir()
    for file in range(FILES):
        times, users = zip(*clicks(file), strict=True)
        table = pa.table(
            {"event_time": pa.array(times, pa.timestamp("us", "UTC")), "user": pa.array(users)}
        )
        path = folder / f"{file}.parquet"
        pq.write_table(table, path)
        os.utime(path, (math.floor(START_US / 1e6) + file,) * 2)
    return folder
