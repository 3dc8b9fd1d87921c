"""Joins, `over`, functions, two inputs and steps beside a sidecar, broken in telling ways."""

from functools import partial

from tests.mutants.mutation import Mutation

BACKENDS, FUNCTIONS, SIDECAR = "backends", "functions", "sidecar"

_join = partial(
    Mutation,
    room=BACKENDS,
    suites=("tests/backends/test_stream_joins.py", "tests/backends/test_stream_join_law.py"),
)
_as_of = partial(Mutation, room=BACKENDS, suites=("tests/backends/test_as_of_law.py",))
_over = partial(
    Mutation,
    room=BACKENDS,
    suites=("tests/backends/test_over_law.py", "tests/backends/test_frames_law.py"),
)
_function = partial(Mutation, room=FUNCTIONS, suites=("tests/functions",))
_inputs = partial(Mutation, room=BACKENDS, suites=("tests/pipeline/test_idle_inputs.py",))
_sidecar = partial(
    Mutation,
    room=SIDECAR,
    suites=(
        "tests/sidecar/test_batches.py",
        "tests/sidecar/test_functions.py",
        "tests/sidecar/test_in_order.py",
    ),
)

OPERATOR_MUTATIONS = [
    # ---- joins
    _join(
        "a partner at the far end of between is missed",
        old="key + numbers.after(t_ms + high_ms)",
        new="key + numbers.not_before(t_ms + high_ms)",
    ),
    _join(
        "a partner is found one ms after its row has ended",
        old="return min(end_ms - 1, FAR_MS)",
        new="return min(end_ms, FAR_MS)",
    ),
    _join(
        "a row that matched in an earlier batch ends as unmatched",
        old="(numbers == -1) | np.isin(numbers, np.asarray(marks.payload[0]))",
        new="numbers == -1",
    ),
    _join(
        "a row leaves one ms before its last partner may come",
        old="else t_ms + of.reach_ms",
        new="else t_ms + of.reach_ms - 1",
    ),
    _join(
        "rows in state meet no new rows of the other input",
        old="_matches(rows, rows.old, others, others.new, low_ms, high_ms)",
        new="_matches(rows, rows.old, others, others.new[:0], low_ms, high_ms)",
    ),
    _join(
        "null keys of a join match one another",
        old="np.flatnonzero((is_right == at) & ~is_null[key])",
        new="np.flatnonzero(is_right == at)",
    ),
    _as_of(
        "a probe finds the version of a life that has ended",
        old="is_matched = ~walk.is_trackless[records]",
        new="is_matched = np.ones(len(records), dtype=bool)",
    ),
    # ---- over
    _over(
        "records of one time are counted one by one",
        old="last = np.minimum.accumulate(np.where(is_last, last, n)[::-1])[::-1]",
        new="pass",
    ),
    _over(
        "a range lacks the records at its far end",
        old="np.lexsort((is_row, times_ms,",
        new="np.lexsort((~is_row, times_ms,",
    ),
    _over(
        "a frame of rows has one row too many",
        old="life[lasts]) + 1, self.size)",
        new="life[lasts]) + 1, self.size + 1)",
    ),
    _over(
        "a life forgets the oldest row of its frame",
        old="np.repeat(stops - sizes,",
        new="np.repeat(stops - sizes + 1,",
    ),
    _over(
        "order columns do not order the rows of a frame",
        old="dict.fromkeys((*self.order, *names))",
        new="dict.fromkeys(names)",
    ),
    # ---- functions
    _function(
        "a timer fires after the record of its time",
        old="context.wakes_at_ms <= t_ms or has_ttl",
        new="context.wakes_at_ms < t_ms or has_ttl",
    ),
    _function(
        "a timer fires after the life has ended",
        old="reach_ms = min(upto_ms, life.deadline_ms)",
        new="reach_ms = upto_ms",
    ),
    _function(
        "a life of which nothing is left goes on",
        old="                return\n        self._is_open = False\n",
        new="                return\n",
    ),
    _function(
        "a new life finds the states of the last one",
        old="            cell.content = None\n        self._context.timers",
        new="            pass\n        self._context.timers",
    ),
    _function(
        "timers of a call that failed stay",
        old="context.timers, context.wakes_at_ms = saved.timers, saved.wakes_at_ms",
        new="pass",
    ),
    _function(
        "a value is still found when its time to live is over",
        old="if found[1] <= horizon_ms(self._ttl_ms, now_ms):",
        new="if found[1] < horizon_ms(self._ttl_ms, now_ms):",
    ),
    _function(
        "records of one time come in order of arrival",
        old="if n < 2 or not steps.carried:",
        new="if n or not steps.carried:",
    ),
    # ---- two inputs
    _inputs(
        "an input becomes idle one ms late",
        old="return last_ms - first_ms >= terms.idle_after_ms",
        new="return last_ms - first_ms > terms.idle_after_ms",
    ),
    _inputs(
        "an idle input holds the watermark back",
        old="if each == name or not known.get(each, InputRecord()).is_idle(of)",
        new="if known",
    ),
    _inputs(
        "rejected rows keep an input awake",
        old="if more.input > more.rejected:",
        new="if more.input:",
    ),
    _inputs(
        "a row at the highest time less the delay is late",
        old="return self.rows.highest_ms - terms.delay_ms - 1",
        new="return self.rows.highest_ms - terms.delay_ms",
    ),
    # ---- steps beside a sidecar
    _sidecar(
        "a second task of a batch commits the batch",
        old="attempt.batch_id > record.open.batch_id:",
        new="attempt.batch_id >= record.open.batch_id:",
    ),
    _sidecar(
        "a task may give shards that are not its own",
        old="if shards.keys() != set(attempt.shards):",
        new="if not shards:",
    ),
    _sidecar(
        "a task of an older batch is still taken",
        old="if opened is None or opened.batch_id != attempt.batch_id:",
        new="if opened is None:",
    ),
    _sidecar(
        "rows that the packing tasks counted are not noted",
        old="mine = {at: each.counted(counts.get(at, {}), time_ms) for at, each in shards.items()}",
        new="mine = dict(shards)",
    ),
    _sidecar(
        "another query finds how far the last one got",
        old="shards = [each.for_another_query() for each in self._state.shards]",
        new="shards = list(self._state.shards)",
    ),
]
