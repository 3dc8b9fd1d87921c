"""Files that are refused: the whole text of their problems, with line, field and cure.

The tables are the text files in `refused/`: cases apart by an empty line, what is expected after
`=> `; the first paragraph says what a case is.
"""

from pathlib import Path

import pytest

from idlestate.config.loading import parse
from idlestate.config.problems import ConfigError

REFUSED = Path(__file__).with_name("refused")
PIPELINE = (REFUSED / "pipeline.yaml").read_text()


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(text.encode(), "f.yaml")
    return [problem.render().removeprefix("f.yaml:") for problem in caught.value.problems]


def table(name: str) -> list[tuple[str, list[str]]]:
    cases = []
    for paragraph in (REFUSED / name).read_text().strip().split("\n\n")[1:]:
        lines = paragraph.split("\n")
        told = [line.removeprefix("=> ") for line in lines if line.startswith("=> ")]
        assert told, paragraph
        cases.append(("\n".join(line for line in lines if not line.startswith("=> ")), told))
    return cases


def edited(change: str, pipeline: str = PIPELINE) -> str:
    """The pipeline with the lines after `-` replaced by those after `+`.

    A change without `-` goes behind the policy.
    """
    old = "".join(f"{line[1:]}\n" for line in change.split("\n") if line.startswith("-"))
    new = "".join(f"{line[1:]}\n" for line in change.split("\n") if line.startswith("+"))
    anchor = old or "    policy: sessions\n"
    assert pipeline.count(anchor) == 1
    return pipeline.replace(anchor, new if old else anchor + new)


def test_the_pipeline_that_the_cases_edit_is_right() -> None:
    assert parse(PIPELINE.encode(), "f.yaml").warnings == ()


@pytest.mark.parametrize(("text", "expected"), table("sections.txt"))
def test_sections(text: str, expected: list[str]) -> None:
    assert problems(text) == expected


@pytest.mark.parametrize(("body", "expected"), table("policies.txt"))
def test_policies(body: str, expected: list[str]) -> None:
    told = problems(f"version: 1\npolicies:\n  a: {{{body}}}\n")
    assert told == [f"3: policies.a{each}" for each in expected]


@pytest.mark.parametrize(("change", "expected"), table("pipelines.txt"))
def test_pipelines(change: str, expected: list[str]) -> None:
    assert problems(edited(change)) == expected


def test_two_pipelines_share_no_place() -> None:
    second = PIPELINE[PIPELINE.index("  p:") :].replace("  p:", "  q:")
    assert [told.split("; ")[0] for told in problems(PIPELINE + second)] == [
        (
            "20: pipelines.q.sinks.results: "
            '"out/results" is also the path of pipelines.p.sinks.results'
        ),
        '21: pipelines.q.checkpoint: "out/checkpoint" is also the path of pipelines.p.checkpoint',
    ]


def test_two_pipelines_may_keep_their_runs_in_one_place() -> None:
    runs = "    runs: s3://bucket/state?region=eu-central-1\n"
    first = PIPELINE + runs
    second = PIPELINE[PIPELINE.index("  p:") :].replace("  p:", "  q:").replace("out/", "out2/")
    assert list(parse((first + second + runs).encode()).pipelines) == ["p", "q"]


def test_a_pipeline_may_read_what_another_one_writes() -> None:
    second = PIPELINE[PIPELINE.index("  p:") :].replace("  p:", "  q:").replace("out/", "out2/")
    both = PIPELINE + second.replace("build/in", "out/results")
    assert list(parse(both.encode()).pipelines) == ["p", "q"]


def test_two_uids_differ_in_more_than_case() -> None:
    second = PIPELINE[PIPELINE.index("  p:") :].replace("  p:", "  P:").replace("out/", "out2/")
    (told,) = problems(PIPELINE + second)
    assert told == (
        "13: pipelines.P: P and p differ only in case and share a folder on some systems; "
        "rename one of them"
    )


def test_the_same_name_twice_is_a_duplicate_key() -> None:
    second = PIPELINE[PIPELINE.index("  p:") :]
    assert problems(PIPELINE + second) == [
        "13: pipelines.p: duplicate key p, first used on line 4; remove one of them"
    ]


def test_all_problems_of_a_file_are_told_in_the_order_of_its_lines() -> None:
    text = """\
version: 3
defaults: &d {min_gap: 5 min}
policies:
  a: {idle: {min: 30m, max: 31m}, tll: 1d, update: yes}
  a: {ttl: 1d}
selectors:
  - {operator: "*", policy: b}
pipelines:
  p:
    source: {path: in, format: xml}
    delay: 010
    key: [user]
    aggregates: {n: median(x), user: count}
    policy: c
    sinks: {results: out, rejects: out}
    colour: red
"""
    assert [told.split(";")[0].rsplit(": ", 1)[0].split(": ")[:2] for told in problems(text)] == [
        ["1", "version"],
        ["2", "defaults"],
        ["2", "defaults.min_gap"],
        ["4", "policies.a.update"],
        ["4", "policies.a.tll"],
        ["4", "policies.a.idle.max"],
        ["5", "policies.a"],
        ["7", "selectors[0].policy"],
        ["9", "pipelines.p.checkpoint"],
        ["10", "pipelines.p.source.format"],
        ["11", "pipelines.p.delay"],
        ["13", "pipelines.p.aggregates.user"],
        ["13", "pipelines.p.aggregates.n"],
        ["14", "pipelines.p.policy"],
        ["15", "pipelines.p.sinks.rejects"],
        ["16", "pipelines.p.colour"],
    ]
