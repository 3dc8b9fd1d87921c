"""The JSON Schema: current, sound, and of one mind with the loader where it can be."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from idlestate.config.loading import parse
from idlestate.config.problems import ConfigError
from idlestate.config.schema import SCHEMA_FILE, build_schema, render_schema

REFUSED = Path(__file__).with_name("refused")
VALIDATOR = jsonschema.Draft202012Validator(build_schema())


def test_the_committed_file_is_current() -> None:
    assert SCHEMA_FILE.read_text(encoding="utf-8") == render_schema(), "run `make schema`"


def test_it_is_a_json_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(build_schema())


def test_it_allows_no_null_and_names_no_milliseconds() -> None:
    assert '"null"' not in render_schema()
    assert "_ms" not in render_schema()


@pytest.mark.parametrize("name", ["clicks.yaml", "wikipedia.yaml"])
def test_ready_made_files_follow_it(name: str) -> None:
    VALIDATOR.validate(yaml.safe_load((SCHEMA_FILE.parent / name).read_text()))


@pytest.mark.parametrize(
    ("body", "allowed"),
    [
        ({}, True),
        ({"idle": "12h"}, True),
        ({"idle": "never"}, True),
        ({"idle": 0}, True),
        ({"idle": {"min": "30m", "max": "45m"}}, True),
        ({"idle": {"min": "30m"}}, False),
        ({"idle": "30 minutes"}, False),
        ({"idle": 30}, False),
        ({"ttl": "1h30m"}, True),
        ({"ttl": "30m1h"}, False),
        ({"ttl": ""}, False),
        ({"ttl": 0}, False),
        ({"ttl": None}, False),
        ({"max_lifetime": "never"}, True),
        ({"min_gap": 0}, True),
        ({"min_gap": "never"}, False),
        ({"ttl": "1d", "remember": "forever"}, True),
        ({"remember": "never"}, False),
        ({"update": "on_read_and_write"}, True),
        ({"update": "on_read"}, False),
        ({"idel": "12h"}, False),
    ],
)
def test_it_agrees_with_the_loader_about_policies(body: dict[str, object], allowed: bool) -> None:
    document = {"version": 1, "policies": {"a": body}}
    assert VALIDATOR.is_valid(document) is allowed
    try:
        parse(json.dumps(document).encode())
    except ConfigError:
        assert not allowed
    else:
        assert allowed


def test_writing_it_again_changes_nothing() -> None:
    before = SCHEMA_FILE.read_bytes()
    wrote = subprocess.run(
        [sys.executable, "-m", "idlestate.config.schema"],
        capture_output=True,
        check=True,
        text=True,
    )
    assert wrote.stdout == f"wrote {SCHEMA_FILE}\n"
    assert SCHEMA_FILE.read_bytes() == before
