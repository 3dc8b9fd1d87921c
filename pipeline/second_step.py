"""An operator behind another one in the same query.

Both run in each batch, and there is only one watermark, that of the first input. When batch N
sweeps, the first operator emits what ended after W(N - 1) and up to W(N). The second one processes
these rows in the same batch and then sweeps at W(N), so for it a row is late iff its time is at or
before W(N - 1).
"""

import re

from pyspark.sql import DataFrame

from idlestate.errors import RefusedError
from idlestate.pipeline.operator_spec import OperatorSpec
from idlestate.pipeline.query_start_listener import operators_in
from idlestate.pipeline.spark.dataframe_plan import analyzed_plan, has_watermark

_SEVERAL = re.compile(r"^\W*(Union|Join)\b", re.MULTILINE)
_TWO_QUERIES = (
    "write the output of {first!r} to a folder and read it in a second query, as docs/two-steps.md "
    "shows"
)


def is_second_step(events: DataFrame, spec: OperatorSpec) -> bool:
    """Whether the input of an operator is the output of another one.

    Raises:
        RefusedError: it is, but Spark cannot run both in one query; or the input has a watermark.
    """
    plan = analyzed_plan(events) if events.isStreaming else ""
    found = operators_in(events.sparkSession, plan) if plan else []
    if not found:
        refuse_watermark(events, spec.uid)
        return False
    first = found[0]
    above, _, _ = plan.partition("MapInArrow")  # the end of the first operator
    wrong = ""
    if spec.backend != "spark" or any(each.backend != "spark" for each in found):
        wrong = "both need backend='spark': the expire rows of a sidecar come with a later batch"
    elif not (spec.is_event_time and all(each.is_event_time for each in found)):
        wrong = "both need event time: in processing time Spark passes no watermark on"
    elif _SEVERAL.search(above):
        wrong = "its output may not be united or joined with another input before"
    if wrong:
        raise RefusedError(
            f"operator {spec.uid!r}: it follows operator {first.uid!r} in one query, and {wrong}; "
            f"{_TWO_QUERIES.format(first=first.uid)}",
            about="",
        )
    if spec.delay_ms:
        raise RefusedError(
            f"operator {spec.uid!r}: it follows operator {first.uid!r}, whose watermark it has; "
            "remove delay here, and set it there"
        )
    return True


def refuse_second_step(events: DataFrame, uid: str) -> None:
    """Refuse the output of an operator, and an input with a watermark.

    Raises:
        RefusedError: the input is one of these.
    """
    plan = analyzed_plan(events) if events.isStreaming else ""
    found = operators_in(events.sparkSession, plan) if plan else []
    if found:
        raise RefusedError(
            f"operator {uid!r}: one of its inputs is the output of operator {found[0].uid!r}, and "
            "an operator with two inputs cannot follow another one in one query; "
            f"{_TWO_QUERIES.format(first=found[0].uid)}",
            about="",
        )
    refuse_watermark(events, uid)


def refuse_watermark(events: DataFrame, uid: str) -> None:
    """Refuse an input with a watermark.

    Raises:
        RefusedError: it is a stream that has one.
    """
    if events.isStreaming and has_watermark(events):
        raise RefusedError(
            f"operator {uid!r}: the input has a watermark already; remove withWatermark and pass "
            "delay='...', which sets a watermark that bad event times do not affect",
            about="",
        )
