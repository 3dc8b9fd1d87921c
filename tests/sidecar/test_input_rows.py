"""What a client takes as rows, what it gives back, and what becomes of writes with no answer."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from idlestate.sidecar.client.client import SidecarClient
from idlestate.sidecar.core.data_calls import Calls
from idlestate.sidecar.protocol import input_rows
from idlestate.sidecar.protocol.call_table import CallTable, stage_calls
from idlestate.sidecar.protocol.connection import Connection
from idlestate.sidecar.protocol.errors import AwayError, DoesNotFitError, SidecarError
from idlestate.sidecar.protocol.message import Message
from idlestate.timers.steady_clock import SteadyClock
from tests.sidecar.sidecar_world import UID, World, batch

MANY = [f"key-{number:08}" + 80 * "-" for number in range(200_000)]
TABLE = pa.table({"k": MANY[:20], "v": range(20)})


class Lines:
    """The ways to a world's sidecar and its ranges; they may break before a call or behind it."""

    def __init__(self, world: World) -> None:
        self._main = Calls(world.host, SteadyClock(world.clock)).table
        self._ranges = {
            f".{at}": CallTable(stage_calls(each.stage)) for at, each in enumerate(world.workers)
        }
        self.is_away = self.loses_answers = False

    def call(self, connection: Connection, name: str, header: Any, *parts: bytes) -> Message:
        if self.is_away:
            raise AwayError("away")
        table = self._ranges.get(connection.address.place.removeprefix("unix:nowhere"), self._main)
        answer = Message.decode(table.answer(name, Message(dict(header or {}), parts).encode()))
        if self.loses_answers:
            raise AwayError("no answer")
        return answer


alone_and_spread = pytest.mark.parametrize(
    "world",
    [pytest.param("heap", marks=pytest.mark.long), "heap in 2 ranges"],
    indirect=True,
)
"""Of tests with many rows."""


@pytest.fixture
def lines(world: World, monkeypatch: pytest.MonkeyPatch) -> Lines:
    made = Lines(world)

    def call(connection: Connection, name: str, header: Any = None, *parts: bytes) -> Message:
        return made.call(connection, name, header, *parts)

    monkeypatch.setattr(Connection, "call", call)
    return made


@pytest.fixture
def client(lines: Lines) -> Iterator[SidecarClient]:
    with SidecarClient("unix:nowhere", UID, writer="till") as made:
        yield made


def totals(client: SidecarClient, keys: Any = TABLE) -> dict[str, int]:
    found = client.get_many(keys)
    found = found.filter(pc.is_valid(found["created_at"]))
    return dict(zip(found["k"].to_pylist(), found["total"].to_pylist(), strict=True))


def given_as(rows: pa.Table) -> dict[str, Any]:
    keys, values = rows["k"], rows["v"]
    return {
        "record batch": rows.combine_chunks().to_batches()[0],
        "data frame": rows.to_pandas(),
        "series": {"k": pd.Series(keys.to_pylist()), "v": values.to_numpy()},
        "dictionary": pa.table({"k": keys.dictionary_encode(), "v": values.cast(pa.int16())}),
        "views": pa.table({"k": keys.cast(pa.string_view()), "v": values}),
        "large": pa.table({"k": keys.cast(pa.large_string()), "v": values.cast(pa.float64())}),
        "chunks": pa.concat_tables([rows.slice(0, 7), rows.slice(7, 0), rows.slice(7)]),
        "a part": pa.concat_tables([rows, rows]).slice(len(rows)),
        "dicts": rows.to_pylist(),
    }


@pytest.mark.parametrize("form", given_as(TABLE))
def test_rows_are_the_same_in_whatever_form_they_come(client: SidecarClient, form: str) -> None:
    given = given_as(TABLE)[form]
    client.add_many(given)
    wanted = {key: value for value, key in enumerate(MANY[:20])}
    assert totals(client) == wanted
    if form != "series":
        assert totals(client, given) == wanted
    client.touch(given)
    client.remove_many(given)
    assert totals(client) == {}


@alone_and_spread
@pytest.mark.parametrize("form", ["dictionary", "views"])
def test_a_small_part_of_much_is_a_small_call(client: SidecarClient, form: str) -> None:
    """The values behind codes and views travel only where they are meant."""
    much = pa.table({"k": [key * 4 for key in MANY], "v": [1] * len(MANY)})
    part = given_as(much)[form].slice(5, 10)
    client.add_many(part)
    assert totals(client, part) == {key * 4: 1 for key in MANY[5:15]}


@alone_and_spread
def test_each_asked_key_has_its_row_in_the_order_asked(client: SidecarClient) -> None:
    for rows in (pa.table({"k": MANY}).slice(0, 100_000), pa.table({"k": MANY}).slice(100_000)):
        client.add_many(rows.append_column("v", pa.array([1] * 100_000)))
    twice = [MANY[7], "nobody", MANY[3], MANY[7]]
    for asked in ([None, *MANY[::-1], "nobody", *MANY], twice, [MANY[7]], ["nobody"]):
        found = client.get_many({"k": asked})
        assert found["k"].to_pylist() == asked
        known = [None if key in (None, "nobody") else 1 for key in asked]
        assert found["n"].to_pylist() == known
        assert found["created_at"].is_valid().to_pylist() == [each == 1 for each in known]
        assert found.schema.metadata == {b"batch_id": b"-1"}


@alone_and_spread
@pytest.mark.parametrize("count", [1, len(MANY)])
def test_columns_that_would_not_be_kept_are_refused_by_name(
    client: SidecarClient, count: int
) -> None:
    rows = pa.table({"k": MANY[:count], "v": [1] * count, "amuont": [1] * count})
    for write in (client.add_many, client.put_many):
        with pytest.raises(DoesNotFitError, match="unknown column amuont; it takes k, v"):
            write(rows)
    client.add_many(rows.select(["k", "v"]))
    client.touch(rows)
    assert set(totals(client, rows).values()) == {1}


def test_a_read_gives_what_a_look_up_gives_and_is_a_write_of_its_own(
    client: SidecarClient, world: World
) -> None:
    client.add_many(TABLE)
    world.clock.advance(10)
    asked = {"k": [MANY[3], "nobody"]}
    found = client.read_many(asked, seq=7)
    assert found.equals(client.get_many(asked))
    assert found["total"].to_pylist() == [3, None]
    read_ms, none = found["read_at"].cast("int64").to_pylist()
    assert (read_ms, none) == (1000 * world.clock.now_ms(), None)
    assert client.add_many({"k": ["a"], "v": [1]}).seq == 8


@pytest.mark.parametrize("nothing", [[], {}, {"k": [], "v": []}, TABLE.slice(0, 0)])
def test_no_rows_are_no_error(client: SidecarClient, nothing: Any) -> None:
    for write in (client.add_many, client.put_many, client.touch, client.remove_many):
        write(nothing)
    client.add_many(TABLE)
    none = client.get_many(nothing)
    assert len(none) == 0
    assert none.schema == client.get_many(TABLE).schema


@pytest.mark.parametrize("at", [0, 1])
def test_a_dict_that_lacks_a_name_has_null_there_whichever_it_is(
    client: SidecarClient, at: int
) -> None:
    rows = [{"k": "whole", "v": 5}]
    rows.insert(at, {"k": "half"})
    client.add_many(rows)
    assert totals(client, {"k": ["whole", "half"]}) == {"whole": 5, "half": None}


@pytest.mark.parametrize(
    "junk",
    [
        *(None, 5, "text", [("a", 1)], ["text"], ({"k": "a", "v": 1} for _ in range(2))),
        *({"k": ["a"], "v": []}, {"k": ["a", 1], "v": [1, 2]}, {"k": ["a"], "v": [1 << 63]}),
    ],
)
def test_what_are_no_rows_is_refused_and_holds_up_nothing(client: SidecarClient, junk: Any) -> None:
    with pytest.raises(DoesNotFitError, match="pass an Arrow table"):
        client.add_many(junk)
    with pytest.raises(DoesNotFitError, match="pass an Arrow table"):
        client.get_many(junk)
    client.add_many(TABLE)
    assert len(totals(client)) == 20


def test_all_that_raised_while_the_sidecar_was_away_is_sent_again(
    client: SidecarClient, lines: Lines
) -> None:
    lines.is_away = True
    for rows in (TABLE, [{"k": "b", "v": 1}], [{"k": "b", "v": 2}]):
        with pytest.raises(AwayError):
            client.add_many(rows)
    lines.is_away = False
    client.retry()
    client.retry()
    assert totals(client, {"k": ["b"]}) == {"b": 3}
    assert len(totals(client)) == 20


def test_what_is_sent_again_are_the_rows_that_were_given(
    client: SidecarClient, lines: Lines
) -> None:
    columns = [TABLE["v"].to_numpy().copy() for _ in range(2)]
    lines.is_away = True
    for column in columns:
        with pytest.raises(AwayError):
            client.add_many({"k": TABLE["k"], "v": column})
    for column in columns:
        column[:] = -1
    lines.is_away = False
    client.retry()
    assert sum(totals(client).values()) == 2 * sum(range(20))


@pytest.mark.parametrize("rows", [20, len(MANY) // 2])
def test_a_write_whose_answer_is_lost_counts_once(
    client: SidecarClient, lines: Lines, rows: int
) -> None:
    lines.loses_answers = True
    with pytest.raises(AwayError):
        client.add_many({"k": MANY[:rows], "v": [1] * rows})
    with pytest.raises(AwayError):
        client.add_many([{"k": "b", "v": 1}])
    lines.loses_answers = False
    client.add_many([{"k": "b", "v": 1}])
    assert totals(client, {"k": ["b", MANY[rows - 1]]}) == {"b": 2, MANY[rows - 1]: 1}


def test_a_write_that_is_refused_late_is_told_apart_from_the_one_behind_it(
    client: SidecarClient, lines: Lines
) -> None:
    lines.is_away = True
    with pytest.raises(AwayError):
        client.add_many([{"k": "a", "v": "no number"}])
    lines.is_away = False
    with pytest.raises(DoesNotFitError, match=r"an earlier write \(add of 1 rows\) is refused"):
        client.add_many([{"k": "b", "v": 1}])
    client.retry()
    assert totals(client, {"k": ["a", "b"]}) == {"b": 1}


def test_who_repeats_its_input_after_a_crash_counts_it_once(
    client: SidecarClient, lines: Lines
) -> None:
    """A producer dies at any moment and begins again where it last knew to have been."""
    chunks = [(offset, [{"k": "a", "v": offset}]) for offset in (3, 7, 8, 20)]
    for offset, rows in chunks[:2]:
        client.add_many(rows, seq=offset)
    lines.loses_answers = True
    with pytest.raises(AwayError):
        client.add_many(chunks[2][1], seq=8)
    lines.loses_answers = False
    with SidecarClient("unix:nowhere", UID, writer="till") as again:
        for offset, rows in chunks:
            again.add_many(rows, seq=offset)
        assert totals(again, {"k": ["a"]}) == {"a": 3 + 7 + 8 + 20}
        again.put_many([{"k": "a", "v": 1}])  # with the next free number
        again.add_many([{"k": "a", "v": 1}], seq=21)
        again.add_many([{"k": "a", "v": 1}], seq=22)
        assert totals(again, {"k": ["a"]}) == {"a": 2}


@pytest.mark.parametrize("seq", [-1, 1.5, True, "1"])
def test_a_number_that_is_none_is_refused(client: SidecarClient, seq: Any) -> None:
    with pytest.raises(SidecarError, match="an integer of 0 or more"):
        client.touch(TABLE, seq=seq)


def test_threads_may_share_a_client(client: SidecarClient) -> None:
    def write(thread: int) -> None:
        for _ in range(40):
            client.add_many([{"k": f"{thread}", "v": 1}])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(4)))
    assert totals(client, {"k": ["0", "1", "2", "3"]}) == dict.fromkeys("0123", 40)


def test_who_tries_a_number_again_and_again_has_it_waiting_once(
    client: SidecarClient, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop around one write must not fill the memory while the sidecar is away."""
    lines.is_away = True
    for _ in range(3):
        with pytest.raises(AwayError):
            client.add_many([{"k": "a", "v": 1}], seq=8)
    lines.is_away = False
    sent: list[int] = []
    call = Connection.call

    def counted(connection: Connection, name: str, header: Any = None, *parts: bytes) -> Message:
        sent.extend([header["seq"]] if name == "write" else [])
        return call(connection, name, header, *parts)

    monkeypatch.setattr(Connection, "call", counted)
    client.add_many([{"k": "a", "v": 1}], seq=8)
    assert sent == [8]
    client.add_many([{"k": "a", "v": 1}], seq=9)
    assert totals(client, {"k": ["a"]}) == {"a": 2}


@alone_and_spread
@pytest.mark.parametrize("is_open", [False, True])
def test_too_many_rows_in_one_call_are_refused_whether_a_batch_is_open_or_not(
    client: SidecarClient, world: World, monkeypatch: pytest.MonkeyPatch, is_open: bool
) -> None:
    """No range has too many of them, but the batch's border would have."""
    monkeypatch.setattr(input_rows, "MAX_ROWS", 15_000)
    rows = {"k": MANY[:20_000], "v": [1] * 20_000}
    first = batch(world, 0, "a")
    if is_open:
        world.task(first, 0, "e")
    with pytest.raises(DoesNotFitError, match="send fewer at a time"):
        client.add_many(rows)
    world.run(first)
    world.settle(first)
    assert world.operator.sizes().quarantined == 0
    client.add_many(pa.table(rows).slice(0, 15_000))
    assert world.operator.sizes().live_keys == 15_001


def test_large_writes_go_on_when_their_operator_is_made_anew_with_other_columns(
    client: SidecarClient, world: World
) -> None:
    rows = pa.table({"k": MANY[:5_000], "v": [1] * 5_000})
    client.add_many(rows)
    world.host.drop(UID)
    client.declare(
        key={"k": pa.string()},
        aggregates={"total": "sum(w)"},
        columns={"w": pa.int64()},
        policy=world.operator.record.policy,
    )
    client.add_many(rows.rename_columns(["k", "w"]))
    assert totals(client, rows.slice(0, 1)) == {MANY[0]: 1}
