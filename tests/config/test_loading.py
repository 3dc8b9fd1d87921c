"""Loading: the shape of what comes out, files that cannot be opened, and no other ends."""

import string
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from idlestate.config.loading import Config, load_config, parse
from idlestate.config.pipeline_settings import Metrics, Pipeline
from idlestate.config.problems import ConfigError
from idlestate.retention.budget import Budget
from idlestate.retention.policy import Policy

FULL = """\
version: 1
policies: {p: {ttl: 1d}}
pipelines:
  full:
    source:
      path: s3a://bucket/in/*.csv.gz
      format: csv
      schema: {event_time: timestamp, "odd `name`": "decimal(10, 2)"}
      files_per_batch: 3
      header: false
      delimiter: "\\t"
      escape: '"'
      timestamp_format: yyyy/MM/dd HH:mm
    event_time: event_time
    delay: 1h30m
    max_ahead: 2d
    min_event_time: "2015-09-12"
    order: [n, m]
    read_when: looks
    key: [user, page]
    aggregates: {n: count, last: "max_by(page, event_time)"}
    policy: p
    sinks: {results: s3a://bucket/out, expired: out/expired, rejects: out/rejects, format: json}
    backend: spark
    checkpoint: out/checkpoint
    state_partitions: 4
    shards: 16
    trigger: 10s
    metrics: {port: 0, address: 0.0.0.0}
  short:
    source: {path: in2, format: json, schema: "user string,\\n  n bigint"}
    event_time: t
    delay: 0
    key: [user]
    aggregates: {n: count}
    policy: p
    sinks: {results: out2/results}
    checkpoint: out2/checkpoint
"""


def test_every_field_of_a_pipeline() -> None:
    full = parse(FULL.encode()).pipelines["full"]
    source, sinks = full.source, full.sinks
    assert source.path == "s3a://bucket/in/*.csv.gz"
    assert source.ddl == "`event_time` timestamp, `odd ``name``` decimal(10, 2)"
    assert (source.format, source.files_per_batch, source.header) == ("csv", 3, False)
    assert (source.delimiter, source.escape) == ("\t", '"')
    assert source.timestamp_format == "yyyy/MM/dd HH:mm"
    assert (full.event_time, full.delay_ms, full.max_ahead_ms) == (
        "event_time",
        5_400_000,
        172_800_000,
    )
    assert full.min_event_time_ms == 1_442_016_000_000
    assert (full.order, full.read_when, full.key) == (("n", "m"), "looks", ("user", "page"))
    assert full.aggregates == {"n": "count", "last": "max_by(page, event_time)"}
    assert (sinks.results, sinks.expired, sinks.rejects, sinks.format) == (
        "s3a://bucket/out",
        "out/expired",
        "out/rejects",
        "json",
    )
    assert (full.state_partitions, full.shards, full.trigger_ms) == (4, 16, 10_000)
    assert (full.metrics.port, full.metrics.address) == (0, "0.0.0.0")


def test_what_a_pipeline_may_leave_out() -> None:
    short = parse(FULL.encode()).pipelines["short"]
    assert short.source.ddl == "user string, n bigint"
    assert (short.source.files_per_batch, short.source.header, short.source.delimiter) == (
        None,
        True,
        ",",
    )
    assert (short.delay_ms, short.max_ahead_ms, short.min_event_time_ms) == (
        0,
        3_600_000,
        86_400_000,
    )
    assert (short.order, short.read_when) == ((), None)
    assert (short.sinks.expired, short.sinks.rejects, short.sinks.format) == (None, None, "parquet")
    assert (short.state_partitions, short.shards, short.trigger_ms) == (None, None, None)
    assert short.metrics == Metrics(port=9464, address="127.0.0.1")
    assert short.backend == "spark"


def test_processing_time_needs_no_event_time() -> None:
    text = FULL[FULL.index("  short:") :].replace("    event_time: t\n    delay: 0\n", "")
    head = "version: 1\npolicies: {p: {ttl: 1d, time: processing}}\npipelines:\n"
    assert parse((head + text).encode()).pipelines["short"].event_time is None
    by_selector = head + text.replace("    policy: p\n", "")
    selectors = "selectors: [{operator: s*, policy: p}]\n"
    assert parse((by_selector + selectors).encode()).warnings == ()


def test_a_file_may_hold_policies_alone() -> None:
    config = parse(b"version: 1\npolicies: {a: {ttl: 1s}}\n")
    assert (config.policies, dict(config.pipelines), config.warnings) == (
        {"a": Policy(ttl_ms=1000)},
        {},
        (),
    )
    assert parse(b'{"version": 1}').policies == {}


def test_nothing_that_was_loaded_can_be_changed() -> None:
    config = parse(FULL.encode())
    with pytest.raises(AttributeError):
        config.file = "other"  # type: ignore[misc]
    with pytest.raises(ValueError, match="frozen"):
        config.pipelines["full"].delay_ms = 5


def test_load_names_the_file_as_it_was_given(tmp_path: Path) -> None:
    path = tmp_path / "some.yaml"
    path.write_text("version: 1\npolicies: {a: {tl: 1s}}\n")
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    (problem,) = caught.value.problems
    assert (problem.file, problem.line, problem.field_path) == (str(path), 2, "policies.a.tl")
    assert str(caught.value) == (f"{path}:2: policies.a.tl: unknown field tl; use ttl")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("missing.yaml", "No such file or directory"),
        (".", "Is a directory"),
        ("nul\0.yaml", "embedded null byte"),
    ],
)
def test_a_file_that_cannot_be_opened(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(f"{tmp_path}/{name}")
    (problem,) = caught.value.problems
    assert (problem.file, problem.line) == (f"{tmp_path}/{name}", 0)
    assert problem.what == f"cannot be read: {why}"
    assert problem.fix == "pass the path of a configuration file, such as config/clicks.yaml"
    assert str(caught.value).isprintable()


def test_a_file_without_end_is_not_read_to_its_end() -> None:
    with pytest.raises(ConfigError, match="larger than 1 MiB"):
        load_config("/dev/zero")


def test_a_long_list_of_problems_is_cut_in_the_text_alone() -> None:
    text = "version: 1\n" + "".join(f"x{n}: 1\n" for n in range(150))
    with pytest.raises(ConfigError) as caught:
        parse(text.encode())
    assert len(caught.value.problems) == 150
    assert str(caught.value).endswith("\nand 50 more")


# ---------------------------------------------------------------- no other ends

WORDS = [
    *("version", "defaults", "policies", "selectors", "pipelines", "idle", "min", "max", "ttl"),
    *("min_gap", "remember", "time", "operator", "state", "policy", "source", "path", "format"),
    *("schema", "event_time", "delay", "key", "aggregates", "sinks", "results", "checkpoint"),
    *("shards", "state_partitions", "trigger", "metrics", "port", "p", "*", "order"),
]
VALUES = (
    st.sampled_from(["never", "30m", "12h", "p", "count", "parquet", "processing", "in", "out"])
    | st.sampled_from([0, 1, -1, 1.5, True, None, 10**30, "", "1:30", "\0", "a\nb", "\ud800"])
    | st.text(max_size=5)
)
TREES = st.recursive(
    VALUES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(WORDS) | VALUES, inner, max_size=6)
    ),
    max_leaves=20,
)
FIELDS = {
    name: st.one_of(TREES, st.just(value))
    for name, value in yaml.safe_load(FULL)["pipelines"]["full"].items()
}
FILES = st.fixed_dictionaries(
    {"version": st.just(1)},
    optional={
        "defaults": TREES,
        "policies": st.dictionaries(st.just("p") | VALUES, TREES, max_size=3),
        "selectors": st.lists(TREES, max_size=3),
        "pipelines": st.dictionaries(
            st.sampled_from(["full", "FULL", "a b"]),
            st.fixed_dictionaries({}, optional=FIELDS) | TREES,
            max_size=2,
        ),
    },
)


def ends_well(data: bytes) -> None:
    result: Config | ConfigError
    try:
        result = parse(data, "f.yaml")
    except ConfigError as error:
        result = error
    if isinstance(result, ConfigError):
        assert result.problems
        assert all(problem.what and problem.fix for problem in result.problems)
        assert all(problem.render().isprintable() for problem in result.problems)
    else:
        for uid, pipeline in result.pipelines.items():
            assert isinstance(result.policy_for(uid), Policy)
            assert isinstance(pipeline, Pipeline)


@given(
    st.text() | st.text(string.printable, max_size=200) | st.text("{}[]&*!|>:-#,? \n\t'\"ab1<=%@")
)
def test_any_text_is_a_config_or_a_config_error(text: str) -> None:
    ends_well(text.encode("utf-8", "surrogatepass"))


@given(st.binary(max_size=50))
def test_any_bytes_are_a_config_or_a_config_error(data: bytes) -> None:
    ends_well(data)


@given(st.one_of(TREES, FILES))
@settings(max_examples=150)
def test_any_yaml_is_a_config_or_a_config_error(tree: object) -> None:
    ends_well(yaml.safe_dump(tree, allow_unicode=True).encode("utf-8", "surrogatepass"))


@given(st.data())
def test_any_change_of_a_good_file_is_a_config_or_a_config_error(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(FULL)))
    until = data.draw(st.integers(at, min(at + 12, len(FULL))))
    put = data.draw(st.text(string.printable, max_size=6) | st.sampled_from(WORDS))
    ends_well(f"{FULL[:at]}{put}{FULL[until:]}".encode())


BUDGETS = """\
version: 1
defaults: {ttl: 1d, time: processing, budget: {keys: 1000}}
policies:
  small: {budget: {bytes: 2GB}}
  none: {budget: {}}
  plain: {}
selectors:
  - {operator: "*-small", policy: small}
  - {operator: "*-none", policy: none}
sidecar:
  directory: out/sidecar
  operators:
    own:
      columns: {user: string}
      key: [user]
      aggregates: {n: count}
      policy: small
      budget: {keys: 5, bytes: 3KiB}
"""


@pytest.mark.parametrize(
    ("uid", "budget"),
    [
        ("own", Budget(5, 3072)),
        ("a-small", Budget(0, 2_000_000_000)),
        ("a-none", Budget()),
        ("another", Budget(1000)),
    ],
)
def test_a_budget_is_the_operators_own_or_its_policys(uid: str, budget: Budget) -> None:
    assert parse(BUDGETS.encode()).budget_for(uid) == budget


@pytest.mark.parametrize(
    ("text", "size"),
    [("1B", 1), ("7", 7), ("2KB", 2000), ("1MiB", 1_048_576), ("1000TB", 10**15)],
)
def test_sizes(text: str, size: int) -> None:
    file = f"version: 1\ndefaults: {{ttl: 1d, budget: {{bytes: {text}}}}}\n"
    assert parse(file.encode()).budget_for("u") == Budget(bytes=size)
