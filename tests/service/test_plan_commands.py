"""`idlestate plan` and `explain`: what they print, and a plain line for what cannot be done."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import idlestate
from idlestate.config.loading import Config
from idlestate.errors import RefusedError
from idlestate.pipeline import explanations, policy_plans
from idlestate.service.cli import main
from tests.backends.law_cases import ROW_VALUES
from tests.pipeline.made_checkpoint import make_case, make_checkpoint, tree_hash
from tests.pipeline.test_explanations import one_life
from tests.reference import Record, Rule
from tests.service.command_line import INNARDS

HOUR_MS = 3_600_000
SHORT = "version: 1\npolicies: {a: {ttl: 1h}}\nselectors: [{operator: law, policy: a}]\n"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Key 0 came at the beginning, and it is two hours later."""
    path = tmp_path / "checkpoint"
    one_life(path, Rule(ttl_ms=10 * HOUR_MS), [0], reached_ms=2 * HOUR_MS)
    return path


@pytest.fixture
def short(tmp_path: Path) -> Path:
    file = tmp_path / "short.yaml"
    file.write_text(SHORT)
    return file


def called(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(main, [*map(str, words)])
    assert not any(word in done.output for word in INNARDS), done.output
    return done.exit_code, done.stdout, done.stderr


def test_a_plan_is_printed_and_changes_nothing(checkpoint: Path, short: Path) -> None:
    before = tree_hash(checkpoint)
    code, out, _ = called("plan", short, "--against", checkpoint)
    assert code == 0
    assert tree_hash(checkpoint) == before
    head, size, _, now, *later, refused = out.splitlines()
    assert head == "law: ttl 10h -> ttl 1h"
    assert size.startswith("  1 live keys, ")
    assert [line.split()[0] for line in (now, *later)] == ["now", "in", "in"]
    assert (now.split()[1], now.split()[-1]) == ("1", "0")
    assert later[-1].split()[2::3] == ["1", "1"]
    assert refused == "  a reload is refused: 100% of the live keys would go at once"


@pytest.mark.parametrize("command", ["plan", "explain"])
def test_what_takes_long_to_import_is_not_imported(
    command: str, checkpoint: Path, short: Path
) -> None:
    """They answer within a second, and imports are most of it."""
    words = {
        "plan": ["plan", str(short), "--against", str(checkpoint)],
        "explain": ["explain", str(checkpoint), "--key", "0"],
    }[command]
    script = (
        "import sys; from idlestate.service.cli import main; "
        f"main({words!r}, standalone_mode=False); "
        "print('imported:', *sorted({'pandas', 'pydantic', 'pyspark', 'rich'} & {*sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    needed = ["pydantic"] if command == "plan" else []  # it reads a file with policies
    assert done.stdout.splitlines()[-1].split() == ["imported:", *needed], done.stderr


def test_json_of_a_plan_is_that_of_the_function(checkpoint: Path, short: Path) -> None:
    code, out, _ = called("plan", short, "--against", checkpoint, "--format", "json")
    assert code == 0
    assert json.loads(out) == [each.to_json() for each in idlestate.plan(short, checkpoint)]


def test_an_explanation_is_printed(checkpoint: Path) -> None:
    code, out, _ = called("explain", checkpoint, "--key", "0")
    assert code == 0
    head, *lines = out.splitlines()
    assert head == (
        "law, k0=0: This key is in state until 1970-01-01 10:00:00.100+00:00, when its time to "
        "live ends, unless it is written before."
    )
    assert "  deadline     1970-01-01 10:00:00.100+00:00, by ttl" in lines
    assert "  policy       version 1, ttl 10h (selectors[0])" in lines


def test_json_of_an_explanation_is_that_of_the_function(checkpoint: Path) -> None:
    code, out, _ = called("explain", checkpoint, "--key", "7", "--format", "json")
    assert code == 0
    assert json.loads(out) == idlestate.explain([7], checkpoint).to_json()
    assert json.loads(out)["state"] == "never_seen"


def test_a_null_key_is_asked_for_in_json(tmp_path: Path) -> None:
    batch = [Record((None,), 100, ROW_VALUES[0]), Record(("null",), 200, ROW_VALUES[0])]
    case = make_case(Rule(ttl_ms=HOUR_MS), [batch], [0], "string")
    make_checkpoint(tmp_path, case, 0)
    for asked in ("[null]", '{"k0": null}'):
        code, out, _ = called("explain", tmp_path, "--key-json", asked, "--format", "json")
        assert code == 0
        found = json.loads(out)
        assert (found["key"], found["created_at_ms"]) == ({"k0": None}, 100)
    for words in (["--key", "null"], ["--key-json", '["null"]']):
        code, out, _ = called("explain", tmp_path, *words, "--format", "json")
        assert (code, json.loads(out)["created_at_ms"]) == (0, 200)


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        (None, "null"),
        ("null", '"null"'),
        ("None", "None"),
        ("", '""'),
        ("é 1", "é 1"),
        ("a\nb\x1b[31m", r'"a\nb\u001b[31m"'),
    ],
)
def test_a_key_is_shown_on_one_line_and_null_as_null(
    tmp_path: Path, key: str | None, shown: str
) -> None:
    case = make_case(Rule(ttl_ms=HOUR_MS), [[Record((key,), 100, ROW_VALUES[0])]], [0], "string")
    make_checkpoint(tmp_path, case, 0)
    _, out, _ = called("explain", tmp_path, "--key-json", json.dumps([key]))
    assert out.startswith(f"law, k0={shown}: This key is in state until ")


def test_a_key_that_is_gone_comes_with_the_time_and_the_reason(tmp_path: Path) -> None:
    one_life(tmp_path, Rule(ttl_ms=40), [0, 140])
    code, out, _ = called("explain", tmp_path, "--key", "0")
    assert code == 0
    when = "1970-01-01 00:00:00.140+00:00"
    expired = f"This key expired at {when}: its time to live ended."
    assert out.startswith(f"law, k0=0: {expired}\n  remembered   keys ")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["plan", "FILE"], 2, "pass --against CHECKPOINT or --sidecar ADDRESS"),
        (["plan", "no.yaml", "--against", "CHECKPOINT"], 1, "no.yaml: cannot be read"),
        (["plan", "FILE", "--against", "nowhere"], 1, "folder nowhere does not exist"),
        (["plan", "FILE", "--against", "CHECKPOINT", "--operator", "x"], 1, "holds no operator"),
        (["plan", "FILE", "--sidecar", "unix:/nowhere.sock"], 1, "/nowhere.sock"),
        (
            ["plan", "FILE", "--against", "CHECKPOINT", "--token-file", "x"],
            2,
            "--token-file requires --sidecar ADDRESS",
        ),
        (
            ["explain", "CHECKPOINT", "--key", "0", "--ca-file", "x"],
            2,
            "--ca-file requires --sidecar ADDRESS",
        ),
        (["explain", "--key", "0"], 2, "pass a CHECKPOINT, or --sidecar ADDRESS and"),
        (["explain", "nowhere", "--key", "0"], 1, "folder nowhere does not exist"),
        (["explain", "CHECKPOINT", "--key", "x"], 1, "key column k0 is of type int64"),
        (["explain", "CHECKPOINT", "--key", "1", "--key", "2"], 1, "one value for each key col"),
        (["explain", "--operator", "x", "--key", "1", "--sidecar", "unix:/no"], 1, "unix:/no"),
        (["explain", "CHECKPOINT"], 2, "pass either --key or --key-json"),
        (["explain", "CHECKPOINT", "--key", "1", "--key-json", "[1]"], 2, "pass either --key or"),
        (["explain", "CHECKPOINT", "--key-json", "[1"], 2, "--key-json is not valid JSON"),
        (["explain", "CHECKPOINT", "--key-json", "null"], 2, "takes an array such as [null]"),
        (["explain", "CHECKPOINT", "--key-json", "[[1]]"], 1, "key column k0 is of type int64"),
        (["explain", "CHECKPOINT", "--key-json", '{"x": 1}'], 1, "its key columns are k0"),
    ],
)
def test_a_refusal_is_one_plain_line(
    checkpoint: Path,
    short: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    code: int,
    message: str,
) -> None:
    for asking in (explanations, policy_plans):
        monkeypatch.setattr(asking, "CONNECT_TIMEOUT_S", 0.1)
    places = {"FILE": short, "CHECKPOINT": checkpoint}
    found, out, err = called(*(places.get(word, word) for word in words))
    assert (found, out) == (code, "")
    assert message in err


@pytest.mark.parametrize(
    "words", [["explain", "CHECKPOINT", "--key", "0"], ["state", "ls", "CHECKPOINT"]]
)
def test_a_folder_that_cannot_be_read_is_named_in_one_line(
    tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / "idlestate").touch()
    found, _, err = called(*(tmp_path if word == "CHECKPOINT" else word for word in words))
    assert (found, err) == (1, f"Cannot list directory '{tmp_path}/idlestate': Not a directory\n")


@pytest.mark.parametrize(("options", "share"), [([], 0.5), (["--allow-shrink"], 1.0)])
def test_the_limit_of_a_change_is_lifted_for_one_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], share: float
) -> None:
    found: list[float] = []

    def begun(config: Config, *_: object, **__: object) -> object:
        found.append(config.policy_for("law").max_shrink)
        raise RefusedError("this is as far as it goes")

    file = tmp_path / "both.yaml"
    law = """
  law:
    source: {path: in, format: json, schema: {user: string, at: timestamp}}
    event_time: at
    delay: 1m
    key: [user]
    aggregates: {n: count}
    checkpoint: out/checkpoint
    sinks: {results: out/results}
"""
    file.write_text(f"{SHORT}pipelines:{law}sidecar: {{directory: state}}\n")
    monkeypatch.setattr("idlestate.service.job.Job", begun)
    monkeypatch.setattr("idlestate.sidecar.server.serving.Process", begun)
    with pytest.raises(RefusedError):
        CliRunner().invoke(main, ["run", str(file), *options], catch_exceptions=False)
    assert called("serve", file, *options)[0] == 1
    assert found == [share, share]
