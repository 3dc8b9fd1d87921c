"""`layout.json` and `policies.json`: whatever is not valid in them is named."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import idlestate
from idlestate import Policy
from idlestate.errors import DamagedStateError, IdlestateError
from tests.pipeline.made_checkpoint import UID
from tests.pipeline.test_explanations import one_life
from tests.reference import Rule

FILES = ["layout.json", "policies.json"]
WRONG = [None, "x", -1, 10**30, [], {}, True]
ADVICE = "; restore it from a copy of the checkpoint"
Steps = tuple[str | int, ...]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    one_life(tmp_path, Rule(ttl_ms=40), [0])
    return tmp_path


def ask(checkpoint: Path) -> None:
    idlestate.explain([0], checkpoint)
    idlestate.plan(Policy(), checkpoint)


def paths(value: Any, path: Steps = ()) -> Iterator[Steps]:
    """Every place in a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value[:2])
    for step, inner in items:
        if isinstance(inner, dict | list):
            yield from paths(inner, (*path, step))
        else:
            yield (*path, step)


def changed(value: Any, path: Steps, new: object) -> Any:
    if not path:
        return new
    copy = json.loads(json.dumps(value))
    inner = copy
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = new
    return copy


@pytest.mark.parametrize("name", FILES)
def test_whatever_is_in_them_commands_end_with_an_error_of_idlestate(
    checkpoint: Path, name: str
) -> None:
    file = checkpoint / "idlestate" / UID / name
    facts = json.loads(file.read_text())
    for path in paths(facts):
        for wrong in WRONG:
            file.write_text(json.dumps(changed(facts, path, wrong)))
            with suppress(IdlestateError):  # some are valid, as null for `runs`
                ask(checkpoint)


@pytest.mark.parametrize(
    ("name", "path", "wrong", "message"),
    [
        ("layout.json", (), None, "its content must be a mapping, not None"),
        ("layout.json", ("shards",), "x", 'shards must be a list, not "x"'),
        ("layout.json", ("shards", 0), -1, "shards[0] must be an int from 0 to"),
        ("layout.json", ("definitions",), [], "definitions must be at least one"),
        ("layout.json", ("definitions", 0, "definition", "keys"), ["x"], "definitions: unknown "),
        ("layout.json", ("definitions", 0, "definition", "kind"), "x", "definitions: unknown kind"),
        ("layout.json", ("definitions", 0, "definition", "schema"), "x", "definitions: schema is"),
        (
            "layout.json",
            ("definitions", 0, "definition", "time"),
            "x",
            "definitions[0].definition: time must",
        ),
        ("layout.json", ("of_tomorrow",), 1, "of_tomorrow is not a known field"),
        ("policies.json", (), None, "its content must be a list, not None"),
        ("policies.json", (), [], "it has no policy"),
        ("policies.json", (0, "version"), 7, "[0].version must be 1, not 7"),
        ("policies.json", (0, "chosen_by"), None, "[0].chosen_by must be text, not None"),
        ("policies.json", (0, "policy", "ttl_ms"), -1, "[0].policy: ttl_ms must be an int"),
        ("policies.json", (0, "policy"), {"version": 1}, "[0].policy: a policy lacks idle_max_ms"),
    ],
)
def test_a_field_that_is_not_valid_is_named(
    checkpoint: Path, name: str, path: Steps, wrong: object, message: str
) -> None:
    file = checkpoint / "idlestate" / UID / name
    file.write_text(json.dumps(changed(json.loads(file.read_text()), path, wrong)))
    with pytest.raises(DamagedStateError) as found:
        ask(checkpoint)
    assert str(found.value).startswith(f"{file} is damaged ({message}"), found.value


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000])
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_not_json_is_named(checkpoint: Path, name: str, content: bytes) -> None:
    file = checkpoint / "idlestate" / UID / name
    file.write_bytes(content)
    with pytest.raises(DamagedStateError) as found:
        ask(checkpoint)
    assert str(found.value) == f"{file} is damaged (not valid JSON){ADVICE}"


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_called_missing(checkpoint: Path, name: str) -> None:
    file = checkpoint / "idlestate" / UID / name
    file.unlink()
    with pytest.raises(DamagedStateError) as found:
        ask(checkpoint)
    assert str(found.value) == f"{file} is missing{ADVICE}"
