"""Who knows kinds of operators: their own code and the registry, and nothing that is shared."""

from collections import defaultdict
from inspect import isabstract
from pathlib import PurePath

from idlestate.backends.shards import operator_kinds
from idlestate.backends.shards.operator_kind import KindDefaults
from tests.house import ROOMS, imports_in

REGISTRY = PurePath(operator_kinds.__file__).stem

# The module of each kind, and those that may import it besides the registry: code of this kind
# alone, kinds that are made of it, and the calls that make operators of it.
MAY_IMPORT = {
    "aggregation": {
        "running_aggregates",
        "retain",
        "retain_harness",
        "declared_operators",
        "client",
    },
    "as_of": {"join_asof"},
    "bounded_over": {"over"},
    "deduplication": {"as_of", "deduplicate"},
    "function_state": {
        *("functions", "changed_ttls"),
        *("process", "co_process", "process_arguments", "function_harness"),
    },
    "running_aggregates": {"bounded_over", "over"},
    "stream_join": {"join", "join_step", "join_side", "state_rows_of_joins"},
}


def kinds_below(base: type[KindDefaults]) -> set[type[KindDefaults]]:
    below = {found for each in base.__subclasses__() for found in kinds_below(each)}
    return below if isabstract(base) or base is KindDefaults else below | {base}


def test_shared_code_imports_no_kind_of_operator() -> None:
    kinds = {each.__module__ for each in kinds_below(KindDefaults)}
    importers: defaultdict[str, set[str]] = defaultdict(set)
    wrong = []
    for imported, where in imports_in(*ROOMS):
        module = next((each for each in kinds if f"{imported}.".startswith(f"{each}.")), None)
        if module is None:
            continue
        name, path = module.rpartition(".")[2], PurePath(where.split(":")[0])
        importer = "functions" if path.parts[0] == "functions" else path.stem
        if importer in {REGISTRY, *MAY_IMPORT.get(name, ())}:
            importers[name].add(importer)
        else:
            wrong.append(f"{where}: ask the operator's kind instead of importing {imported}")
    assert not wrong, "\n".join(wrong)
    named = {name: found - {REGISTRY} for name, found in importers.items()}
    assert named == MAY_IMPORT, "some modules may import a kind, but do not"
