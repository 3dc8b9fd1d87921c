"""Some days of a soak: it runs, forgets, merges, and nothing grows with every batch."""

import csv
from pathlib import Path

import pytest

from tests.soak.bounds import BRIEF
from tests.soak.curve import draw
from tests.soak.soak import carry_out, check_worth

BATCHES = 45


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="memory is read in /proc")
@pytest.mark.parametrize("operator", ["retain", "join"])
def test_state_stays_flat(operator: str, tmp_path: Path) -> None:
    folder = tmp_path / "soak"
    soak = carry_out(folder, operator, "SHORT", BRIEF, batches=BATCHES, every_s=0.5)
    print(soak)
    check_worth(soak, BATCHES - 1)
    assert [str(each) for each in soak.trends if not each.is_flat] == []
    assert soak.longest_times <= BRIEF.longest, str(soak)
    assert sum(each["merged"] for each in soak.batches)
    with (folder / "samples.csv").open() as lines:
        assert len(list(csv.DictReader(lines))) == len(soak.samples) + 1
    draw(soak, folder / "curve.svg")
    assert (folder / "curve.svg").read_text().startswith("<?xml")
