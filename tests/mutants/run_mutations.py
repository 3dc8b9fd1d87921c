"""Runs, sweeps and merges, broken in every way we could think of."""

from tests.mutants.mutation import Mutation

BACKENDS = "backends"

RUN_MUTATIONS = [
    # ---- runs, sweeps and merges
    Mutation(
        "an older run's row found though a newer run has the key",
        BACKENDS,
        "zip(reversed(self.runs), reversed(self._starts()), strict=True)",
        "zip(self.runs, self._starts(), strict=True)",
    ),
    Mutation(
        "a sweep closes rows that a newer run shadows",
        BACKENDS,
        "rows = rows[~_shadowed(run.keys_at(rows), self.runs[at + 1 :])]",
        "pass",
    ),
    Mutation(
        "a merge keeps shadowed rows",
        BACKENDS,
        "            keep[shadowed[shadowed >= 0]] = False\n",
        "            pass\n",
    ),
    Mutation(
        "a merge keeps closed rows",
        BACKENDS,
        "                keep[begin:stop] = gone | ~run.are_swept(begin, stop, passed)\n",
        "                pass\n",
    ),
    Mutation(
        "a tombstone is dropped though an older run stays",
        BACKENDS,
        "keep_tombstones=stay > 0,",
        "keep_tombstones=False,",
    ),
    Mutation(
        "a tombstone outlives the row that follows it",
        BACKENDS,
        "chain(newer, [(fresh.hashes, fresh.keys)])",
        "chain(newer, [])",
    ),
    Mutation(
        "revived keys leave no tombstone",
        BACKENDS,
        "written = np.flatnonzero(is_kept | (at >= 0))",
        "written = np.flatnonzero(is_kept)",
    ),
    Mutation(
        "swept one ms too far",
        BACKENDS,
        "gone |= is_due(lives.due_ms(sweep.policy), sweep.to_ms)",
        "gone |= is_due(lives.due_ms(sweep.policy), sweep.to_ms + 1)",
    ),
    Mutation(
        "swept one ms too short",
        BACKENDS,
        "gone |= is_due(lives.due_ms(sweep.policy), sweep.to_ms)",
        "gone |= is_due(lives.due_ms(sweep.policy), sweep.to_ms - 1)",
    ),
    Mutation(
        "a sweep to the first deadline of a run passes it by",
        BACKENDS,
        "if sweep.policy != own or sweep.to_ms >= self._first_end_ms",
        "if sweep.policy != own or sweep.to_ms > self._first_end_ms",
    ),
    Mutation(
        "a sweep by another policy is judged by the run's own deadlines",
        BACKENDS,
        "if sweep.policy != own or sweep.to_ms >= self._first_end_ms",
        "if sweep.to_ms >= self._first_end_ms",
    ),
    Mutation(
        "what is due at the first deadline of a run is not looked for",
        BACKENDS,
        "if after_ms is not None and upto_ms < self._first_end_ms:",
        "if after_ms is not None and upto_ms <= self._first_end_ms:",
    ),
    Mutation(
        "a longer policy revives what was closed",
        BACKENDS,
        "while kept and sweeps[kept - 1].policy == newest.policy and",
        "while kept and",
    ),
    Mutation(
        "a sweep that runs back revives what was closed",
        BACKENDS,
        " and sweeps[kept - 1].to_ms <= to_ms:",
        ":",
    ),
    Mutation(
        "a sweep closes what was written after it",
        BACKENDS,
        "return tuple(sweep for sweep in sweeps if sweep.batch_id > batch_id)",
        "return sweeps",
    ),
    Mutation(
        "sweeps are forgotten while a run is older",
        BACKENDS,
        "sweeps=since(self._sweeps, oldest)",
        "sweeps=since(self._sweeps, oldest + 1)",
    ),
    Mutation(
        "a merge leaves out a row that ended before an older one of its key",
        BACKENDS,
        "if stay and self.before.schema.ends_run_back:",
        "if stay and not self.before.schema.columns:",
        ("tests/functions/test_merges_law.py",),
    ),
    Mutation(
        "the index of another policy is believed",
        BACKENDS,
        "if not is_indexed or self.revision is not None:",
        "if self.revision is not None:",
    ),
    Mutation(
        "the index gives only what is due after the last sweep's code",
        BACKENDS,
        "self._places(self._codes(after_ms), self._codes(upto_ms) + 1)",
        "self._places(self._codes(after_ms) + 1, self._codes(upto_ms) + 1)",
    ),
    Mutation(
        "the filter denies some keys it holds",
        BACKENDS,
        "return np.asarray(_PAIRS[low] | _PAIRS[high])",
        "return np.asarray(_PAIRS[low] | _PAIRS[high % (1 + len(high))])",
    ),
    # ---- parts of files
    Mutation(
        "rows are read that were not asked for",
        BACKENDS,
        "        self._need(at, at + 1 + bool(self.layout.texts))\n",
        "        self._need(at[1:], at[1:] + 1 + bool(self.layout.texts))\n",
    ),
    Mutation(
        "a search between fences stops one short",
        BACKENDS,
        "int((stops - begins).max(initial=0)).bit_length()",
        "int((stops - begins).max(initial=0)).bit_length() - 1",
    ),
    Mutation(
        "texts are read that were not asked for",
        BACKENDS,
        "            self.source.need(*places)\n",
        "            pass\n",
    ),
    Mutation(
        "rows between those that a merge keeps are kept too",
        BACKENDS,
        "for portion in portions], rows - begin",
        "for portion in portions], np.arange(stop - begin)",
    ),
    Mutation(
        "a merge copies rows whose types have changed",
        BACKENDS,
        "is_same = self.stored.layout == layout and",
        "is_same = self.stored.layout.dtype == layout.dtype and",
    ),
    Mutation(
        "a merge copies rows that a revision changes",
        BACKENDS,
        "if self.revision is not None or not is_same:",
        "if not is_same:",
        ("tests/functions/test_changed_ttls.py",),
    ),
    Mutation(
        "a merge copies a column that was dropped in between",
        BACKENDS,
        " and None not in self.reader.sources\n",
        "\n",
    ),
    Mutation(
        "rows that never end are in the due index",
        BACKENDS,
        "ends = ~gone & (due_ms != FOREVER_MS)",
        "ends = ~gone",
    ),
    Mutation(
        "strings of a later segment are read from the first one",
        BACKENDS,
        "places = begins + first, stops + first",
        "places = begins + first[0], stops + first[0]",
    ),
    # ---- definitions that change
    Mutation(
        "a kept aggregate gets the id of its place",
        BACKENDS,
        "ids[each.name] = found.id",
        "ids[each.name] = len(ids)",
    ),
    Mutation(
        "the id of a removed aggregate is given again",
        BACKENDS,
        "ids, next_id = {}, before.next_id",
        "ids, next_id = {}, len(before.aggregates)",
    ),
    Mutation(
        "a column that returns has the id that it had",
        BACKENDS,
        "had.get(name, number)",
        "had.get(name)",
    ),
    Mutation(
        "a sum takes over a decimal of another scale",
        BACKENDS,
        "if has_units and pa.types.is_decimal(was) and was.scale != now.scale:",
        "if has_units and pa.types.is_decimal(was) and was.scale > now.scale:",
    ),
]
