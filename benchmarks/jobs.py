"""Jobs: which contestant runs on which input under which windows, and in which order."""

from dataclasses import dataclass, replace

from contestants import (
    ASOF_JOIN,
    ASOF_ROW,
    BARE,
    DEDUPLICATE,
    DROP_DUPLICATES,
    GROUP_BY,
    INTERVAL_JOIN,
    NOTHING,
    PROCESS,
    PROCESS_ROW,
    REGULAR_JOIN,
    RETAIN_DELAYED,
    RETAIN_EVENT,
    RETAIN_HEAP,
    RETAIN_IN_ORDER,
    RETAIN_PROCESSING,
    RETAIN_ROCKSDB,
    RETAIN_SESSION,
    RETAIN_TUMBLING,
    SESSION_WINDOW,
    SPARK_JOIN_2,
    SPARK_JOIN_4,
    TTL,
    WINDOW,
    Contestant,
)
from inputs import FORGET_CYCLE_MS
from recipes import WINDOW_MS, Draw, Recipe, Windows, churn, nothing_due
from scale import Scale
from session import LOCAL

NOTHING_DUE, CHURN, FORGET = "nothing-due", "churn", "forget"
FUNCTIONS = "functions"
DEDUPLICATION, WITHIN = "deduplication", "within"
SESSION, TUMBLING, BY_WINDOW = "session", "tumbling", "by-window"
HOLD = "hold"
HOLD_SUITES = tuple(f"{HOLD}-{draw}" for draw in (Draw.UNIFORM, Draw.ZIPF))
"""Every row waits for the watermark: one batch, or two if it is of the last tenth of its own."""
INTERVAL, REGULAR, ASOF = JOINS = ("interval-join", "regular-join", "asof-join")
BRIEF_SUITES = ("batch-25000", "batch-1000")
SPARSE, EXECUTORS = "sparse", "executors"
SPARSE_SUITES = tuple(f"{SPARSE}-{size}" for size in ("small", "middle", "large"))
CLUSTERS = {f"{count} of one core": f"local-cluster[{count},1,2048]" for count in (1, 2)}
PROCESSING_CHURN_BATCHES = 3.5
"""The max of processing-time churn, in batches: the later ones alone span more than four of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run of one contestant."""

    suite: str
    case: str
    contestant: Contestant
    recipe: Recipe
    windows: Windows | None
    """None: from the measured batches of the same contestant when nothing was due."""
    warm_up: int
    """Batches at the start that do not count."""
    rounds: int
    master: str = LOCAL

    @property
    def counts_expired(self) -> bool:
        """Whether the expire rows among those that reach the sink are counted.

        Looking into each row costs 3 % of a batch, which no row of a peer pays: only where the
        report says it.
        """
        return self.case in (CHURN, FORGET, *CLUSTERS)

    @property
    def name(self) -> str:
        """How it is named on the command line and in reports."""
        return f"{self.suite}/{self.contestant.name}/{self.case}".replace(" ", "-")


def all_jobs(scale: Scale) -> list[Job]:
    """Every job of one round, peers next to each other."""
    jobs: list[Job] = []
    for draw in (Draw.UNIFORM, Draw.ZIPF):
        recipe = Recipe(draw=draw, rows=scale.rows, batches=scale.batches, ids=scale.ids)
        plan = [
            (GROUP_BY, NOTHING_DUE, nothing_due(recipe)),
            (RETAIN_EVENT, NOTHING_DUE, nothing_due(recipe)),
            (RETAIN_PROCESSING, NOTHING_DUE, nothing_due(recipe)),
            (RETAIN_ROCKSDB, NOTHING_DUE, nothing_due(recipe)),
            (RETAIN_HEAP, NOTHING_DUE, nothing_due(recipe)),
            (BARE, NOTHING_DUE, nothing_due(recipe)),
            (RETAIN_EVENT, CHURN, churn(recipe)),
            (RETAIN_PROCESSING, CHURN, None),
        ]
        jobs += _jobs(draw.value, plan, recipe, scale.warm_up, scale.rounds)
    for draw in (Draw.UNIFORM, Draw.ZIPF):
        many = Recipe(draw=draw, rows=scale.small_rows, batches=scale.batches, ids=scale.ids)
        # Row by row a batch takes so long that few warm the JVM, and few have to do.
        few = replace(many, batches=scale.small_batches)
        for contestant, recipe, warm_up in (
            (RETAIN_EVENT, many, scale.warm_up),
            (TTL, few, scale.small_warm_up),
            (RETAIN_PROCESSING, many, scale.warm_up),
        ):
            plan = [(contestant, NOTHING_DUE, nothing_due(recipe))]
            jobs += _jobs(f"small-{draw}", plan, recipe, warm_up, 1)
    for name, rows in zip(BRIEF_SUITES, scale.brief_rows, strict=True):
        recipe = Recipe(draw=Draw.UNIFORM, rows=rows, batches=scale.brief_batches, ids=scale.ids)
        plan = [
            (contestant, NOTHING_DUE, nothing_due(recipe))
            for contestant in (GROUP_BY, RETAIN_EVENT, NOTHING)
        ]
        jobs += _jobs(name, plan, recipe, scale.brief_warm_up, scale.rounds)
    jobs += _hold_jobs(scale)
    jobs += [*_deduplication_jobs(scale), *_window_jobs(scale), *_function_jobs(scale)]
    jobs += _join_jobs(scale)
    jobs += [*_sparse_jobs(scale), *_executor_jobs(scale)]
    jobs += _forget_jobs(scale)
    return [replace(job, recipe=replace(job.recipe, prelude=scale.prelude)) for job in jobs]


def _jobs(
    suite: str,
    plan: list[tuple[Contestant, str, Windows | None]],
    recipe: Recipe,
    warm_up: int,
    rounds: int,
) -> list[Job]:
    return [
        Job(
            suite=suite,
            case=case,
            contestant=contestant,
            recipe=recipe,
            windows=windows,
            warm_up=warm_up,
            rounds=rounds,
        )
        for contestant, case, windows in plan
    ]


def _hold_jobs(scale: Scale) -> list[Job]:
    jobs: list[Job] = []
    for suite, draw in zip(HOLD_SUITES, (Draw.UNIFORM, Draw.ZIPF), strict=True):
        recipe = Recipe(draw=draw, rows=scale.rows, batches=scale.batches, ids=scale.ids)
        peers = (RETAIN_DELAYED, RETAIN_IN_ORDER)
        plan = [(each, NOTHING_DUE, nothing_due(recipe)) for each in peers]
        jobs += _jobs(suite, plan, recipe, scale.warm_up, scale.rounds)
    return jobs


def _deduplication_jobs(scale: Scale) -> list[Job]:
    recipe = Recipe(draw=Draw.UNIFORM, rows=scale.rows, batches=scale.batches, ids=scale.ids)
    plan = [(each, WITHIN, churn(recipe)) for each in (DROP_DUPLICATES, DEDUPLICATE)]
    return _jobs(DEDUPLICATION, plan, recipe, scale.warm_up, scale.rounds)


def _window_jobs(scale: Scale) -> list[Job]:
    recipe = Recipe(draw=Draw.UNIFORM, rows=scale.rows, batches=scale.batches, ids=scale.ids)
    windows = churn(recipe)
    jobs: list[Job] = []
    for suite, peers in (
        (SESSION, (SESSION_WINDOW, RETAIN_SESSION)),
        (TUMBLING, (WINDOW, RETAIN_TUMBLING)),
    ):
        plan = [(each, BY_WINDOW, windows) for each in peers]
        jobs += _jobs(suite, plan, recipe, scale.warm_up, scale.rounds)
    return jobs


def _function_jobs(scale: Scale) -> list[Job]:
    jobs: list[Job] = []
    for draw, rows in (
        (Draw.UNIFORM, scale.small_rows),
        (Draw.ZIPF, scale.small_rows),
        (Draw.UNIFORM, scale.brief_rows[0]),
    ):
        many = Recipe(draw=draw, rows=rows, batches=scale.batches, ids=scale.ids)
        # Row by row a batch takes so long that few have to do.
        few = replace(many, batches=scale.small_batches)
        for contestant, recipe, warm_up in (
            (PROCESS, many, scale.warm_up),
            (PROCESS_ROW, few, scale.small_warm_up),
        ):
            plan = [(contestant, NOTHING_DUE, nothing_due(recipe))]
            jobs += _jobs(f"{FUNCTIONS}-{draw}-{rows}", plan, recipe, warm_up, 1)
    return jobs


def _join_jobs(scale: Scale) -> list[Job]:
    """Half of the rows are in each input."""
    jobs: list[Job] = []
    windows = Windows(min_ms=WINDOW_MS // 6, max_ms=WINDOW_MS // 2)
    for suite, case, ids, peers, ours in (
        (INTERVAL, WITHIN, scale.ids // 4, (SPARK_JOIN_4, SPARK_JOIN_2), INTERVAL_JOIN),
        (REGULAR, WITHIN, scale.ids // 4, (), REGULAR_JOIN),
        (ASOF, NOTHING_DUE, scale.ids, (ASOF_ROW,), ASOF_JOIN),
    ):
        many = Recipe(draw=Draw.UNIFORM, rows=scale.join_rows, batches=scale.batches, ids=ids)
        # A batch of a peer takes so long that few have to do.
        few = replace(many, batches=scale.small_batches)
        plan = [(peer, case, windows) for peer in peers]
        jobs += _jobs(suite, plan, few, scale.small_warm_up, 1)
        jobs += _jobs(suite, [(ours, case, windows)], many, scale.warm_up, 1)
    return jobs


def _sparse_jobs(scale: Scale) -> list[Job]:
    jobs: list[Job] = []
    for suite, ids in zip(SPARSE_SUITES, scale.sparse_ids, strict=True):
        recipe = Recipe(
            draw=Draw.SPARSE, rows=scale.sparse_rows, batches=scale.sparse_batches, ids=ids
        )
        windows = Windows(min_ms=recipe.span_ms, max_ms=2 * recipe.span_ms)
        peers = [TTL] if suite == SPARSE_SUITES[1] else []
        plan = [(contestant, NOTHING_DUE, windows) for contestant in (RETAIN_EVENT, *peers)]
        jobs += _jobs(suite, plan, recipe, recipe.loads + scale.sparse_warm_up, 1)
    return jobs


def _executor_jobs(scale: Scale) -> list[Job]:
    recipe = Recipe(draw=Draw.UNIFORM, rows=scale.rows, batches=scale.batches, ids=scale.ids)
    return [
        replace(job, master=CLUSTERS[job.case])
        for job in _jobs(
            EXECUTORS,
            [(RETAIN_EVENT, case, churn(recipe)) for case in CLUSTERS],
            recipe,
            scale.warm_up,
            scale.rounds,
        )
    ]


def _forget_jobs(scale: Scale) -> list[Job]:
    many = Recipe(
        draw=Draw.FORGET, rows=scale.forget_ids, batches=scale.forget_cycles, ids=scale.forget_ids
    )
    # Row by row a batch takes so long that one cycle has to do.
    one = Recipe(draw=Draw.FORGET, rows=scale.forget_ids, batches=1, ids=scale.forget_ids)
    event = Windows(min_ms=FORGET_CYCLE_MS // 8, max_ms=FORGET_CYCLE_MS // 6)
    # In processing time whatever a batch leaves behind is due in the next.
    at_once = Windows(min_ms=2, max_ms=2)
    return [
        *_jobs(FORGET, [(RETAIN_EVENT, FORGET, event)], many, 0, 1),
        *_jobs(FORGET, [(RETAIN_PROCESSING, FORGET, at_once)], many, 0, 1),
        *_jobs(FORGET, [(TTL, FORGET, at_once)], one, 0, 1),
    ]
