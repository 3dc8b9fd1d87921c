"""Work as messages between the sidecar's own process and a worker that keeps a range."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.retention.policy import Policy, right_policy
from idlestate.sidecar.core.expired_log import Staged
from idlestate.sidecar.core.shard_executor import Shards, StepParameters, StepResult
from idlestate.sidecar.protocol.message import Message

Header = dict[str, Any]


def parameters_header(parameters: StepParameters) -> Header:
    """The parameters of a step."""
    return {
        "policy": parameters.policy.to_json(),
        "t_ms": parameters.t_ms,
        "version": parameters.version,
        "batch_id": parameters.batch_id,
        "now_ms": parameters.now_ms,
        "right": parameters.right and parameters.right.to_json(),
    }


def parameters_of(header: Header) -> StepParameters:
    """Read it back."""
    policies = {"policy": Policy.from_json(header["policy"]), "right": right_policy(header)}
    return StepParameters(**header | policies)


def shard_parts(shards: Shards) -> tuple[list[int], list[bytes]]:
    """Records of shards."""
    return list(shards), [shard.encode() for shard in shards.values()]


def shards_of_parts(header: Header, parts: Sequence[bytes]) -> dict[int, ShardRecord]:
    """Read them back; they are the first parts of a message."""
    numbers = header["shards"]
    return {
        int(at): ShardRecord.decode(part)
        for at, part in zip(numbers, parts[: len(numbers)], strict=True)
    }


def stepped_message(stepped: Mapping[int, StepResult], **facts: Any) -> Message:
    """The results for shards."""
    header = {
        "shards": list(stepped),
        "expired": [[asdict(staged) for staged in each.expired] for each in stepped.values()],
        "made": [list(each.values) for each in stepped.values()],
        **facts,
    }
    return Message(header, tuple(each.shard.encode() for each in stepped.values()))


def stepped_of(message: Message) -> dict[int, StepResult]:
    """Read it back; its values are already in the worker's store."""
    header = message.header
    shards = shards_of_parts(header, message.parts)
    facts = zip(shards.items(), header["expired"], header["made"], strict=True)
    return {
        at: StepResult(shard, tuple(Staged(**each) for each in expired), made=tuple(made))
        for (at, shard), expired, made in facts
    }
