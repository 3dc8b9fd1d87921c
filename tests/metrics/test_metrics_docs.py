"""The page on metrics lists every metric as it is, and its block runs."""

import re

import pytest
from pyspark.sql import SparkSession

from idlestate.metrics import families
from idlestate.metrics.families import Name
from idlestate.metrics.sidecar_metrics import OF_SIDECAR
from idlestate.metrics.spark_metrics import OF_SPARK
from tests.docs_pages import blocks, page
from tests.pipeline.conftest import spark  # noqa: F401 - a fixture

PAGE = "docs/metrics.md"
OF_PROCESS = (
    *families.OF_RELOADS,
    families.DROPPED_FIGURES,
    families.OVERFLOWED_SERIES,
    families.BUILD_INFO,
)


def rows(of: tuple[Name, ...]) -> list[str]:
    return [
        f"| `{name.name}` | {', '.join(name.labels) or 'none'} | {name.help} |"
        for name in of
        if name not in families.OF_RELOADS or of is OF_PROCESS
    ]


@pytest.mark.parametrize(
    ("heading", "of"),
    [
        ("Operators", families.OF_OPERATOR),
        ("Stateful queries of Spark", OF_SPARK),
        ("Sidecars", OF_SIDECAR),
        ("The process", OF_PROCESS),
    ],
)
def test_every_metric_is_listed_as_it_is(heading: str, of: tuple[Name, ...]) -> None:
    section = page(PAGE).split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    listed = re.findall(r"^\| `idlestate_.*$", section, re.M)
    assert listed == rows(of), "expected:\n" + "\n".join(rows(of))


@pytest.mark.spark
def test_the_block_exports_a_session(spark: SparkSession) -> None:  # noqa: F811
    (block,) = (each.text for each in blocks(PAGE) if each.language == "python")
    known = {"spark": spark}
    exec(block.replace("9108", "0"), known)
    served = known["served"]
    try:
        assert served.url.endswith("/metrics")
    finally:
        served.stop()
