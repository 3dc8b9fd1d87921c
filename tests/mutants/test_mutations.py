from pathlib import Path

import pytest

from tests.mutants.mutations import MUTATIONS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.name)
def test_text_that_a_mutation_replaces_is_there_once(mutation):
    """`make mutants` runs for minutes; that it still can is known at once."""
    path = mutation.file(ROOT)
    compile(path.read_text().replace(mutation.old, mutation.new), str(path), "exec")


def test_names_tell_mutations_apart():
    assert len({each.name for each in MUTATIONS}) == len(MUTATIONS)
