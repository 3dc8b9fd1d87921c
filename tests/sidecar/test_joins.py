"""Joins in a sidecar: a batch gives the rows that it gives in Spark's own store, and its state is
read, explained and planned for in the same way.
"""

import json
import math
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from email.message import Message
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from idlestate import Policy
from idlestate.backends.runs.table_runs import LOWEST_HASH
from idlestate.backends.shards.batch_times import BatchTimes
from idlestate.backends.shards.join_step import apply_join
from idlestate.backends.shards.key_details import details_of
from idlestate.backends.shards.operator_steps import JoinStep
from idlestate.backends.shards.packet_codec import encode_packet
from idlestate.backends.shards.planned_removals import HORIZONS_MS
from idlestate.backends.shards.row_counts import RowCounts
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.backends.shards.state_rows import rows_in_state
from idlestate.retention.policy import Policies, TimeDomain
from idlestate.retention.policy_version import PolicyVersion
from idlestate.sidecar.core import local_shard_executor
from idlestate.sidecar.core.operator import Operator
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.sidecar.protocol.errors import DoesNotFitError
from idlestate.sidecar.protocol.transfers import stream_of
from idlestate.sidecar.server.control_plane import OPENAPI, ControlPlane
from idlestate.sidecar.server.status import sidecar_page
from idlestate.web.http_server import Request
from tests.backends.stream_join_rows import Row, rows_of, spec_of, steps_of
from tests.backends.test_stream_join_law import Case, cases, policies_of
from tests.lengths import by_cases
from tests.sidecar.sidecar_world import SPEC
from tests.sidecar.steps_in_tasks import UID, Sidecar

ONE = (Policy(ttl="1s"), 0)
PLANNED: Policies = (Policy(ttl="8ms"), Policy(ttl="30ms"))


class Query:
    """A query with one shard, whose operator is a join in a sidecar."""

    def __init__(self, sidecar: Sidecar, how: str, between: tuple[int, int] | None) -> None:
        self.sidecar, self.spec, self.batches = sidecar, spec_of(how, between), 0

    def batch(
        self, rows: list[Row], watermark_ms: int, policies: Policies, hash_bits: int = 64
    ) -> list[dict[str, Any]]:
        times = BatchTimes(self.batches, watermark_ms, 1000 * self.batches)
        in_force = PolicyVersion(self.batches + 1, 0, policies[0], policies[1])
        packet = encode_packet(steps_of(self.spec, rows, hash_bits))
        counts = {
            side: RowCounts(input=sum(row.side == at for row in rows))
            for at, side in enumerate(("left", "right"))
        }
        advanced = self.sidecar.advance(
            self.spec, ShardRecord(), None, [packet], counts, times, in_force, JoinStep()
        )
        self.batches += 1
        parts = [pa.ipc.open_stream(cell).read_all() for cell in advanced.cells]
        return [row for part in parts for row in part.to_pylist()]


def kept_rows(operator: Operator) -> list[dict[str, Any]]:
    found, since = [], LOWEST_HASH
    while since is not None:
        part, since = operator.lives(0, 0, since)
        found += part.to_pylist()
    return found


def told(operator: Operator, key: str) -> Any:
    return operator.explain(stream_of(pa.table({"k": pa.array([key])})), 0)


def bag(rows: list[dict[str, Any]]) -> Counter[Any]:
    return Counter(tuple(row.items()) for row in rows)


@by_cases("examples", 10)
@pytest.mark.parametrize("kind", ["rocksdb", "heap", "heap in 2 ranges"])
def test_a_join_gives_the_rows_of_sparks_own_store(kind: str, examples: int) -> None:
    """Also if the sidecar dies before a batch is committed; both policies may change at any batch,
    and what is read of the state follows.
    """

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), deadline=None)
    @given(cases())
    def law(case: Case) -> None:
        with (
            tempfile.TemporaryDirectory() as folder,
            pytest.MonkeyPatch.context() as patch,
            closing(Sidecar(kind, Path(folder) / "state", Policy(), dies=any(case.restarts))) as at,
        ):
            patch.setattr(local_shard_executor, "CHUNK_BYTES", 64)
            query = Query(at, case.how, case.between)
            table = ShardTable.empty(query.spec)
            for batch_id, batch in enumerate(case.batches):
                policies, watermark_ms = (
                    policies_of(case.spans[batch_id]),
                    case.watermarks[batch_id],
                )
                rows = [row for row in batch if row.t_ms > watermark_ms]
                steps = steps_of(query.spec, rows, case.hash_bits)
                outcome = apply_join(table, steps, policies, watermark_ms, batch_id, case.merge)
                expected, table = rows_of(outcome), outcome.table
                found = query.batch(rows, watermark_ms, policies, case.hash_bits)
                assert bag(found) == bag(expected)
                check_state(at.host[UID], table, policies, explains=case.hash_bits == 64)

    law()


def check_state(
    operator: Operator, table: ShardTable, policies: Policies, *, explains: bool
) -> None:
    shown = [row for part in rows_in_state(table, policies) for row in part.to_pylist()]
    assert bag(kept_rows(operator)) == bag(shown)
    assert operator.sizes().live_keys == len(shown)
    record, now_ms = operator.state.shards[0], operator.record.reached_ms
    assert operator.record.of_sides == policies
    plan = operator.plan(PLANNED[0], 0, PLANNED[1])
    assert plan.right == (policies[1], PLANNED[1])
    ends = [[*ends_ms(table, each)] for each in (policies, PLANNED)]
    assert [each.more.keys for each in plan.horizons] == [
        sum(new <= now_ms + in_ms < old for old, new in zip(*ends, strict=True))
        for in_ms in HORIZONS_MS
    ]
    assert record.next_end_ms <= min(ends[0], default=math.inf)
    if not explains:
        return
    for key in "abc":
        found = told(operator, key)
        of_key = [pa.array([key])]
        assert found.details == details_of(table, record, of_key, policies, now_ms)
        assert (found.policy, found.right_policy) == policies


def ends_ms(table: ShardTable, policies: Policies) -> Iterator[float]:
    for part in rows_in_state(table, policies):
        for end in part.column("deadline").to_pylist():
            yield math.inf if end is None else round(end.timestamp() * 1000)


def test_a_policy_of_one_input_is_changed_and_survives_a_restart(tmp_path: Path) -> None:
    rows = [Row(at % 2, "a", 1000 + at, at) for at in range(10)]
    kept = Policy(ttl="1s"), Policy(ttl="1s")
    with closing(Sidecar("heap", tmp_path / "state", kept[0], dies=False)) as sidecar:
        query = Query(sidecar, "full", None)
        assert len(query.batch(rows, 0, kept)) == 25
        right_alone = kept[0], Policy(ttl="1ms")
        found = query.batch([], 1020, right_alone)
        assert found == []  # all right rows had found a match
        sidecar.close()
        sidecar.open()
        operator = sidecar.host[UID]
        assert operator.record.of_sides == right_alone
        assert {row["join_side"] for row in kept_rows(operator)} == {"left"}
        assert told(operator, "a").details.sides.keys() == {"left"}
        found = query.batch([Row(1, "a", 1030, 99), Row(0, "a", 1040, 98)], 1021, right_alone)
        assert [row["r"] for row in found] == [99] * 5  # the right row is not kept until 1040


def test_keys_of_a_join_are_explained_and_not_looked_up(tmp_path: Path) -> None:
    with closing(Sidecar("heap", tmp_path / "state", Policy(), dies=False)) as sidecar:
        query = Query(sidecar, "inner", (-10, 10))
        query.batch([Row(0, "a", 1000, 1), Row(1, "a", 1005, 2)], 0, (Policy(), Policy()))
        operator = sidecar.host[UID]
        with pytest.raises(DoesNotFitError, match=r"is a join: its keys have rows and no lives"):
            operator.look_up(stream_of(pa.table({"k": ["a"]})), 0)
        described = json.loads(OPENAPI.read_text())["components"]["schemas"]
        for name, found in (("Explanation", told(operator, "a")), ("Plan", operator.plan(*ONE))):
            check = {**described[name], "components": {"schemas": described}}
            jsonschema.validate(json.loads(json.dumps(found.to_json())), check)
        page = sidecar_page(sidecar.host, sidecar.clock, lambda _: [], lambda _: [])
        keys = page._subject.keys
        assert keys is not None
        assert "1 left row and 1 right row" in keys.look_up(UID, "k=a").sentence
        assert {name: each.rows.input for name, each in operator.inputs.items()} == {
            "left": 1,
            "right": 1,
        }


def test_a_policy_of_right_rows_is_of_joins_alone(tmp_path: Path) -> None:
    shorter = Policy(ttl="1s")
    with closing(Sidecar("heap", tmp_path / "state", Policy(), dies=False)) as sidecar:
        spec = spec_of("inner", None)
        joined = sidecar.host.declare(Declaration.of("j", spec, TimeDomain.EVENT, 1), Policy())
        assert joined.plan(shorter, 0).right == (Policy(), shorter)
        counts = Declaration.of("c", SPEC, TimeDomain.EVENT, 1)
        with pytest.raises(DoesNotFitError, match="'c' is not a join; remove right_policy"):
            sidecar.host.declare(counts, Policy()).plan(shorter, 0, shorter)


def test_the_control_plane_plans_a_policy_for_each_input(tmp_path: Path) -> None:
    with closing(Sidecar("heap", tmp_path / "state", Policy(), dies=False)) as sidecar:
        query = Query(sidecar, "inner", None)
        query.batch([Row(0, "a", 1000, 1), Row(1, "b", 1000, 2)], 0, (Policy(), Policy()))
        query.batch([Row(0, "c", 9000, 3)], 8999, (Policy(), Policy()))
        nothing: Any = SimpleNamespace(answer=lambda _: None)
        parts = (sidecar.host, sidecar.clock, nothing, nothing, nothing, nothing)
        plane = ControlPlane(*parts, changes_allowed=False)

        def asked(policies: str) -> dict[str, Any]:
            request = Request("GET", f"/operators/{UID}/plan", policies, Message(), b"")
            reply = plane.answer(request)
            found: dict[str, Any] = json.loads(reply.body)
            return found

        now = [asked(each)["horizons"][0]["new"]["keys"] for each in ("ttl=1s", "right_ttl=1s")]
        assert now == [2, 1]  # a policy of left rows alone is that of right rows too
        assert asked("ttl=1s&right_ttl=1h")["horizons"][0]["new"]["keys"] == 1
        found = asked("right_idle_min=1h&right_idle_max=2h&ttl=5m")
        assert found["new_right_policy"] == Policy(idle_min="1h", idle_max="2h").to_json()
        assert found["new_policy"] == Policy(ttl="5m").to_json()
        assert '"right_idle" is not a field; use idle_min' in asked("right_idle=1s")["error"]
