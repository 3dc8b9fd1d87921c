"""The names, labels and buckets that dashboards and alerts rely on."""

import re

from idlestate.metrics import families
from idlestate.metrics.families import MetricKind


def test_names_are_distinct_and_begin_with_the_prefix() -> None:
    assert len({name.name for name in families.ALL}) == len(families.ALL)
    assert all(name.name.startswith("idlestate_") for name in families.ALL)


def test_every_name_of_the_module_is_exported() -> None:
    named = {value for value in vars(families).values() if isinstance(value, families.Name)}
    assert named == set(families.ALL)


def test_only_counters_end_in_total() -> None:
    for name in families.ALL:
        assert name.name.endswith("_total") == (name.kind is MetricKind.COUNTER), name.name


def test_units_are_base_units() -> None:
    odd = re.compile(r"_(ms|millis|milliseconds|minutes|hours|kb|mb|percent)(_|$)")
    assert [name.name for name in families.ALL if odd.search(name.name)] == []


def test_labels_are_of_few_kinds() -> None:
    assert {label for name in families.ALL for label in name.labels} == {
        "operator",
        "part",
        "reason",
        "result",
        "version",
        "budget",
        "horizon",
        "bound",
        "within",
        "input",
    }


def test_help_is_a_sentence() -> None:
    for name in families.ALL:
        assert re.fullmatch(r"[A-Z][^\n]+\.", name.help), name.name


def test_buckets_ascend() -> None:
    assert sorted(set(families.BATCH_BUCKETS_S)) == list(families.BATCH_BUCKETS_S)
