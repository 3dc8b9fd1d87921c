"""The strict reader of YAML: what it reads, what it refuses, and the lines it keeps."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from idlestate.config.problems import ConfigError
from idlestate.config.yaml_loader import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_NODES,
    REFUSED,
    Document,
    read_yaml,
)


def read(text: str) -> Document:
    return read_yaml(text.encode(), "f.yaml")


def refusals(text: str) -> list[str]:
    try:
        return [problem.render() for problem in read(text).problems]
    except ConfigError as error:
        return [problem.render() for problem in error.problems]


PLAIN = st.recursive(
    st.booleans()
    | st.integers(-(10**18) + 1, 10**18 - 1)
    | st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=10),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="ascii", categories=["L", "N"])), inner)
    ),
    max_leaves=15,
)


@given(PLAIN)
def test_json_is_read_as_it_is(value: object) -> None:
    document = read(json.dumps(value, ensure_ascii=False))
    assert document.problems == ()
    assert document.value == value


@given(PLAIN)
def test_block_style_is_read_as_it_is(value: object) -> None:
    text = yaml.safe_dump(value, default_flow_style=False, default_style='"')
    text = text.replace('!!int "', '"').replace('!!bool "', '"')
    document = read(text)
    assert document.problems == ()
    assert document.value == yaml.safe_load(text)


def test_scalars() -> None:
    text = "[true, False, 0, -12, 1.5, -0.25, y, n, text, 30m, 1h30m, 'yes', \"010\", a: b]"
    value = [True, False, 0, -12, 1.5, -0.25, "y", "n", "text", "30m", "1h30m", "yes", "010"]
    document = read(text)
    assert document.value == [*value, {"a": "b"}]
    assert document.problems == ()


def test_quotes_and_blocks_are_text() -> None:
    document = read("a: '1:30'\nb: |\n  yes\n  no\nc: >-\n  2015-09-12\n")
    assert document.value == {"a": "1:30", "b": "yes\nno\n", "c": "2015-09-12"}


def test_every_path_has_its_line() -> None:
    document = read("# comment\na:\n  b: 1\n  c:\n    - x\n    - {d: 2,\n       e: 3}\n")
    assert document.lines == {
        (): 2,
        ("a",): 2,
        ("a", "b"): 3,
        ("a", "c"): 4,
        ("a", "c", 0): 5,
        ("a", "c", 1): 6,
        ("a", "c", 1, "d"): 6,
        ("a", "c", 1, "e"): 7,
    }


@pytest.mark.parametrize("word", ["yes", "No", "ON", "off"])
def test_switches_are_refused(word: str) -> None:
    meant = {"yes": "true", "on": "true"}.get(word.lower(), "false")
    never = "" if meant == "true" else "never to turn a rule off, "
    assert refusals(f"a: {word}") == [
        (
            f"f.yaml:1: a: {word} is a boolean to some YAML parsers and text to others; "
            f'use {meant} for the boolean, {never}or "{word}" for the text'
        )
    ]


@pytest.mark.parametrize("number", ["1:30", "12:30:45", "190:20:30.15", "+1:00"])
def test_numbers_in_base_60_are_refused(number: str) -> None:
    assert refusals(f"a: {number}") == [
        (
            f"f.yaml:1: a: {number} is a base-60 number to some YAML parsers; "
            f'use a duration such as 1h30m, or "{number}" for the text'
        )
    ]


def test_octal_numbers_are_refused() -> None:
    assert refusals("a: 010") == [
        (
            "f.yaml:1: a: 010 is an octal number to some YAML parsers; "
            'use 10 for the number, or "010" for the text'
        )
    ]


@pytest.mark.parametrize("date", ["2015-09-12", "2015-9-1 10:00:00", "2015-09-12T06:30:00Z"])
def test_dates_are_refused(date: str) -> None:
    assert refusals(f"a: {date}") == [
        (
            f"f.yaml:1: a: {date} is a date to some YAML parsers and text to others; "
            f'put it in quotes: "{date}"'
        )
    ]


@pytest.mark.parametrize(
    "number", ["0x1F", "0o17", "0b11", "1_000", "1e5", "+5", ".5", "5.", ".inf", "-.INF", ".NaN"]
)
def test_numbers_that_readers_disagree_about_are_refused(number: str) -> None:
    assert refusals(f"a: {number}") == [
        (
            f"f.yaml:1: a: {number} is not the same number to all YAML parsers; "
            f'use plain digits, or "{number}" for the text'
        )
    ]


@pytest.mark.parametrize("number", ["9223372036854775807", "-1000000000000000000.5"])
def test_numbers_of_too_many_digits_are_refused(number: str) -> None:
    assert refusals(f"a: {number}") == [
        (
            f"f.yaml:1: a: {number} is not the same number to all YAML parsers; "
            f'use at most 18 digits, or "{number}" for the text'
        )
    ]


@given(st.text(st.sampled_from("0123456789+-_.:eExobTZ yn"), min_size=1, max_size=12))
def test_what_is_read_is_what_pyyaml_reads(text: str) -> None:
    """No scalar is taken that the usual reader of YAML 1.1 takes for something else."""
    try:
        document = read(f"a: {text}")
        value = document.value
    except ConfigError:
        return
    if isinstance(value, dict) and not document.problems:
        assert value == yaml.safe_load(f"a: {text}")


@pytest.mark.parametrize("nothing", ["", " ~", " null", " NULL"])
def test_null_is_refused(nothing: str) -> None:
    document = read(f"a: 1\nb:{nothing}\n")
    assert document.value == {"a": 1, "b": REFUSED}
    assert [problem.line for problem in document.problems] == [2]
    assert "the value is missing" in document.problems[0].what


def test_a_comma_in_a_flow_mapping_leaves_a_key_without_a_value() -> None:
    (problem,) = read("{n: min_by(a, b)}").problems
    assert problem.field_path == '"b)"'
    assert "text that contains a comma or # needs quotes" in problem.fix


def test_duplicate_keys_are_refused_and_the_first_is_kept() -> None:
    document = read("a:\n  b: 1\n  b: {c: [2, {d: 3}]}\n  e: 4\n")
    assert document.value == {"a": {"b": 1, "e": 4}}
    assert [problem.render() for problem in document.problems] == [
        "f.yaml:3: a.b: duplicate key b, first used on line 2; remove one of them"
    ]


@pytest.mark.parametrize(
    ("key", "shown"), [("1", "1"), ("true", "true"), ("1.5", "1.5"), ("-3", "-3")]
)
def test_a_key_must_be_text(key: str, shown: str) -> None:
    assert refusals(f"a:\n  {key}: x") == [
        f'f.yaml:2: a: key {shown} is not text; put it in quotes: "{shown}"'
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a:\n  ? [b, c]\n  : d\n  e: f", "f.yaml:2: a: a key is a list or a mapping"),
        ("a:\n  ?\n  : d\n  e: f", "f.yaml:2: a: there is no key before the colon"),
        ("a:\n  on: d\n  e: f", "f.yaml:2: a: on is a boolean to some YAML parsers"),
        ("a:\n  ~: d\n  e: f", "f.yaml:2: a: the value is missing"),
        ("a:\n  *x : d\n  e: f", "f.yaml:2: a: YAML aliases (*x) are not supported"),
        ("a:\n  <<: {d: 1}\n  e: f", "f.yaml:2: a: YAML merge keys (<<) are not supported"),
    ],
)
def test_other_keys_are_refused_and_the_rest_is_read(text: str, told: str) -> None:
    document = read(text)
    assert document.value == {"a": {"e": "f"}}
    assert [problem.render().startswith(told) for problem in document.problems] == [True]


def test_anchors_and_aliases_are_refused() -> None:
    assert refusals("a: &base {b: 1}\nc: *base\n") == [
        "f.yaml:1: a: YAML anchors (&base) are not supported; remove &base and its uses",
        (
            "f.yaml:2: c: YAML aliases (*base) are not supported; "
            "repeat the value, or put shared settings under defaults"
        ),
    ]


def test_an_alias_bomb_is_not_expanded() -> None:
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    document = read("\n".join(["a0: &a0 x", *levels]))
    assert len(document.problems) == 9 + 8 * 9
    assert isinstance(document.value, dict)
    assert document.value["a8"] == [REFUSED] * 9


@pytest.mark.parametrize(
    ("tag", "shown"),
    [
        ("!!python/object/apply:os.getcwd", "!!python/object/apply:os.getcwd"),
        ("!!str", "!!str"),
        ("!mine", "!mine"),
        ("!", "!"),
    ],
)
def test_tags_are_refused(tag: str, shown: str) -> None:
    for value in ("5", "[5]", "{b: 5}"):
        assert refusals(f"a: {tag} {value}") == [
            f"f.yaml:1: a: YAML tags ({shown}) are not supported; remove it"
        ]


def test_invisible_characters_are_refused() -> None:
    for text in ('a: "x\\u202e"', 'a: "\\0"', 'a: "\\uD800"', "a: x\u200by", "a: x\u00a0y"):
        assert "invisible characters" in refusals(text)[0]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "f.yaml: the file is empty; add at least version: 1"),
        (b"# only this\n", "f.yaml: the file is empty; add at least version: 1"),
        (b"---\n...\n", "f.yaml: the file is empty; add at least version: 1"),
        (b"a: 1\nb: \xe9\n", "f.yaml:2: the file is not UTF-8; save it as UTF-8"),
        ("a: 1".encode("utf-16"), "f.yaml:1: the file is not UTF-8; save it as UTF-8"),
        (
            b"a: 1\n---\nb: 2\n",
            "f.yaml:2: a second YAML document begins here; keep one document per file",
        ),
        (b"a:\n\tb: 1", "f.yaml:2: invalid YAML: indented with a tab; indent with spaces"),
        (b"a: 1\n\0", "f.yaml:2: unprintable character; remove it"),
        (
            b'a: 1\nb: "\\UFFFFFFFF"',
            "f.yaml:2: escaped character out of range; use \\u and four digits",
        ),
        (
            b"a: b: c",
            (
                "f.yaml:1: invalid YAML: a second colon on the line; "
                "put text that contains a colon in quotes, or check the indentation"
            ),
        ),
        (
            b"a: 1\nb: [1,\nc: 2\n",
            (
                "f.yaml:4: invalid YAML: expected ',' or ']', but got the end of the file; "
                "check the indentation, quotes and brackets on and above this line"
            ),
        ),
    ],
)
def test_what_cannot_be_read_to_its_end(data: bytes, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_yaml(data, "f.yaml")
    assert str(caught.value) == told


def test_what_was_found_before_the_end_is_told_too() -> None:
    assert [told.split(";")[0] for told in refusals("a: 010\nb: [1")] == [
        "f.yaml:1: a: 010 is an octal number to some YAML parsers",
        "f.yaml:2: invalid YAML: expected ',' or ']', but got the end of the file",
    ]


def test_a_byte_order_mark_is_passed_over() -> None:
    assert read_yaml(b"\xef\xbb\xbfa: 1", "f.yaml").value == {"a": 1}


def test_limits() -> None:
    deepest = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert refusals(deepest) == []
    assert "nested deeper than 32 levels" in refusals(f"[{deepest}]")[0]
    assert refusals("[" + "a, " * (MAX_NODES - 1) + "]") == []
    assert "more than 20,000 values" in refusals("[" + "a, " * MAX_NODES + "]")[0]
    assert refusals("a: 1".ljust(MAX_BYTES)) == []
    assert refusals("a: 1".ljust(MAX_BYTES + 1)) == [
        "f.yaml: the file is larger than 1 MiB; split it into several files"
    ]
