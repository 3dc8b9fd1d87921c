"""The rule, broken in every way we could think of: one edit of the source each."""

from tests.mutants.figure_mutations import FIGURE_MUTATIONS
from tests.mutants.mutation import Mutation
from tests.mutants.operator_mutations import OPERATOR_MUTATIONS
from tests.mutants.run_mutations import RUN_MUTATIONS

RETENTION, BACKENDS = "retention", "backends"

MUTATIONS = [
    # ---- the idle rule
    Mutation(
        "re-arm: > becomes >=",
        RETENTION,
        "return saturating_add(t_ms, min_ms) > cleanup_at_ms",
        "return saturating_add(t_ms, min_ms) >= cleanup_at_ms",
    ),
    Mutation(
        "due: <= becomes <", RETENTION, "return deadline_ms <= t_ms", "return deadline_ms < t_ms"
    ),
    Mutation(
        "idle rule on from a min of 1",
        RETENTION,
        "return idle_min_ms > 1",
        "return idle_min_ms > 0",
    ),
    Mutation(
        "re-arm: min and max swapped",
        RETENTION,
        "    min_ms = policy.idle_min_ms\n",
        "    min_ms = policy.idle_max_ms\n",
    ),
    Mutation(
        "armed for min instead of max",
        RETENTION,
        "armed_cleanup_at(t_ms, policy.idle_max_ms)",
        "armed_cleanup_at(t_ms, policy.idle_min_ms)",
    ),
    Mutation(
        "policy change: smaller instead of larger (arrays)",
        RETENTION,
        "return np.maximum(\n            saturating_add(armed, policy.idle_max_ms)",
        "return np.minimum(\n            saturating_add(armed, policy.idle_max_ms)",
    ),
    Mutation(
        "policy change: smaller instead of larger (scalars)",
        RETENTION,
        "return max(\n        saturating_add(armed, policy.idle_max_ms)",
        "return min(\n        saturating_add(armed, policy.idle_max_ms)",
    ),
    Mutation(
        "policy change: a life never armed ends at once",
        RETENTION,
        "armed = np.where(never_armed, last_access_ms, armed_at_ms)",
        "armed = np.asarray(armed_at_ms)",
    ),
    Mutation(
        "policy change: a life never armed waits to be re-armed",
        RETENTION,
        "arm_from_ms[old_rows[old.armed_at_ms == NEVER_MS]] = NEVER_MS",
        "pass",
    ),
    Mutation(
        "sums wrap instead of saturating",
        RETENTION,
        "return np.minimum(times_ms, ceiling) + span_ms",
        "return times_ms + np.int64(span_ms) if ceiling else times_ms",
    ),
    # ---- deadlines and reasons
    Mutation(
        "ties: idle before ttl before lifetime", RETENTION, "end <= deadline", "end < deadline"
    ),
    Mutation(
        "latest instead of earliest deadline",
        RETENTION,
        "deadline = np.where(earlier, end, deadline)",
        "deadline = np.where(earlier, deadline, end)",
    ),
    Mutation(
        "lifetime counts from the last write",
        RETENTION,
        "found = ends(created, base, cleanup, policy)",
        "found = ends(written, base, cleanup, policy)",
    ),
    Mutation(
        "a life's creation moves with its writes",
        RETENTION,
        "created_ms[old_rows] = old.created_at_ms",
        "created_ms[old_rows] = old.written_at_ms",
    ),
    Mutation(
        "ttl always counts from reads too",
        RETENTION,
        "base = last_access(written, read, policy.ttl_update)",
        "base = np.maximum(written, read)",
    ),
    Mutation(
        "ttl goes by the idle rule's update type",
        RETENTION,
        "base = last_access(self.written_at_ms, self.read_at_ms, policy.ttl_update)",
        "base = last_access(self.written_at_ms, self.read_at_ms, policy.update)",
    ),
    # ---- reads and time
    Mutation(
        "reads never count as access",
        RETENTION,
        "return np.maximum(written_at_ms, read_at_ms)",
        "return written_at_ms",
    ),
    Mutation(
        "reads re-arm whatever the update type",
        RETENTION,
        "is UpdateType.ON_CREATE_AND_WRITE:\n        row = rows.next_write[row]",
        "is None:\n        row = rows.next_write[row]",
    ),
    Mutation(
        "a read of an ended life revives it",
        RETENTION,
        "counts &= ~is_due(cleanup[life], rows.t_ms) if policy.idle_on else True",
        "counts &= True",
    ),
    Mutation(
        "time of a key runs back at a batch border",
        RETENTION,
        "t_ms = np.maximum(t_ms, np.repeat(floor, sizes))",
        "t_ms = t_ms.copy()",
    ),
    Mutation(
        "only a record before the second of its life is carried forward",
        RETENTION,
        "if (t_ms[old_rows] > t_ms[np.minimum(old_rows + 1, total - 1)]).any():",
        "if (t_ms[old_rows] > t_ms[np.minimum(old_rows + 2, total - 1)]).any():",
    ),
    Mutation(
        "time of a key runs back inside a batch",
        RETENTION,
        "if not _descends(accesses):",
        "if True:",
    ),
    Mutation(
        "a read without a life holds older records back",
        RETENTION,
        "if not len(stuck):",
        "if True:",
    ),
    Mutation(
        "in one step reads come before writes",
        BACKENDS,
        "return np.lexsort((*last, *reversed(codes), t_ms, key))",
        "last = [~column for column in last]\n"
        "        return np.lexsort((*last, *reversed(codes), t_ms, key))",
    ),
    Mutation(
        "in one step reads come before writes (no order columns)",
        BACKENDS,
        "within |= reads",
        "within |= ~reads",
    ),
    Mutation(
        "order columns compared last to first",
        BACKENDS,
        "*reversed(codes), t_ms, key))",
        "*codes, t_ms, key))",
    ),
    # ---- batches
    Mutation(
        "only a batch's last record per key",
        BACKENDS,
        "        has_old = at >= 0\n",
        "        has_old = at >= 0\n"
        "        last = np.cumsum(steps.counts) - 1\n"
        "        steps = replace(\n"
        "            steps,\n"
        "            counts=np.ones_like(steps.counts),\n"
        "            t_ms=steps.t_ms[last],\n"
        "            is_read=None if steps.is_read is None else steps.is_read[last],\n"
        "            carried=[_at(field, last) for field in steps.carried],\n"
        "        )\n",
    ),
    Mutation(
        "a batch's records all count at its key's last time",
        BACKENDS,
        "        has_old = at >= 0\n",
        "        has_old = at >= 0\n"
        "        last = np.cumsum(steps.counts) - 1\n"
        "        steps = replace(steps, t_ms=np.repeat(steps.t_ms[last], steps.counts))\n",
    ),
    Mutation(
        "records of one step judged as one though others lie between",
        BACKENDS,
        "begins[1:] |= self.is_read[1:] != self.is_read[:-1]",
        "pass",
    ),
    Mutation(
        "a life closed in a batch is forgotten",
        BACKENDS,
        "is_over = walk.is_closed.copy()",
        "is_over = np.zeros_like(walk.is_closed)",
    ),
    Mutation(
        "lives closed in a batch yield no expire row",
        BACKENDS,
        "either = is_shown | is_over",
        "either = is_shown | is_over & ~walk.is_closed",
    ),
    # ---- sweeps
    Mutation(
        "sweep one ms late",
        BACKENDS,
        "is_over = is_due(self._revised(lives, rows).due_ms(policy), upto_ms)",
        "is_over = is_due(self._revised(lives, rows).due_ms(policy), upto_ms - 1)",
    ),
    Mutation(
        "sweep one ms late for keys of the batch",
        BACKENDS,
        "is_over |= is_due(walk.ends.deadline_ms, sweep_at_ms)",
        "is_over |= is_due(walk.ends.deadline_ms, sweep_at_ms - 1)",
    ),
    Mutation(
        "sweep one ms early",
        BACKENDS,
        "is_over = is_due(self._revised(lives, rows).due_ms(policy), upto_ms)",
        "is_over = is_due(self._revised(lives, rows).due_ms(policy), upto_ms + 1)",
    ),
    # ---- keys and hashes
    Mutation(
        "hash collisions not compared with the table",
        BACKENDS,
        "same = are_equal(wanted, self.stored.layout.columns(records, self._keys, text))",
        "pass",
    ),
    Mutation(
        "hash collisions not compared in a batch",
        BACKENDS,
        "    if begins.all() or have_one_key(by_hash, keys):\n",
        "    if True:\n",
    ),
    Mutation(
        "hash collisions not compared where rows came in order",
        BACKENDS,
        "    return bool((are_equal(after, before) | by_hash.begins[1:]).all())\n",
        "    return True\n",
    ),
    Mutation(
        "only the first of equal hashes looked at",
        BACKENDS,
        "at, pending = at[~same] + 1, pending[~same]",
        "at, pending = at[:0], pending[:0]",
    ),
    Mutation(
        "null keys equal nothing",
        BACKENDS,
        "pc.and_(a.is_null(), b.is_null())",
        "pc.and_(a.is_null(), b.is_valid())",
    ),
    # ---- returning keys
    Mutation(
        "a key that returns at exactly remember is missed",
        BACKENDS,
        "begun_ms <= until",
        "begun_ms < until",
    ),
    Mutation(
        "returning_keys inside a batch are missed",
        BACKENDS,
        "previous_end[1:] = np.where(follows[1:], walk.ends.deadline_ms[:-1], previous_end[1:])",
        "pass",
    ),
    Mutation(
        "ended keys forgotten one ms early",
        BACKENDS,
        "return Policy(ttl_ms=policy.remember_for_ms + 1)",
        "return Policy(ttl_ms=policy.remember_for_ms or 1)",
    ),
    # ---- aggregates
    Mutation(
        "NaN is the smallest number",
        BACKENDS,
        "codes[np.isnan(plain)] = np.iinfo(np.int64).max",
        "codes[np.isnan(plain)] = np.iinfo(np.int64).min + 1",
    ),
    Mutation(
        "negative floats compare as positive ones",
        BACKENDS,
        "np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)",
        "bits.copy()",
    ),
    Mutation(
        "first and last skip nulls",
        BACKENDS,
        "valid = leading != self._no_time",
        "valid = (leading != self._no_time) & is_valid(fields[-1])",
    ),
    Mutation(
        "ties of min_by and max_by go to any row",
        BACKENDS,
        "((each, key_of) for each in columns for key_of in _keys(each))",
        "((each, key_of) for each in columns[:1] for key_of in _keys(each))",
    ),
    Mutation(
        "reads count in aggregates",
        BACKENDS,
        "is_write = np.ones(n, dtype=bool) if reads is None else ~reads",
        "is_write = np.ones(n, dtype=bool)",
    ),
    Mutation(
        "carries of 128-bit sums are lost",
        BACKENDS,
        "np.add.reduceat(high, starts) + carry",
        "np.add.reduceat(high, starts)",
    ),
    Mutation(
        "floats summed without compensation",
        BACKENDS,
        "lost = np.where(np.isfinite(added), lost + error[a] + error[b], 0.0)",
        "lost = np.zeros_like(added)",
    ),
    Mutation(
        "averages over all rows, those with null too",
        BACKENDS,
        "                value = value / np.maximum(counted, 1)",
        "                value = value / (np.maximum(counted, 1) + 1)",
    ),
    # ---- what is kept and shown
    Mutation(
        "a run written and read back loses who was armed",
        BACKENDS,
        "found |= {name} if (times != NEVER_MS).any() else set()",
        'found |= {name} if name == "read" and (times != NEVER_MS).any() else set()',
    ),
    Mutation(
        "new keys not kept in order of hash",
        BACKENDS,
        'return PackedRows.gathered(parts, rows[np.argsort(hashes, kind="stable")])',
        "return PackedRows.gathered(parts, rows)",
    ),
    Mutation(
        "expire rows carry the last access as their end",
        BACKENDS,
        "np.where(is_expire, part.ends.deadline_ms, NEVER_MS)",
        "np.where(is_expire, run.lives.last_access_ms(policy), NEVER_MS)",
    ),
    *RUN_MUTATIONS,
    *FIGURE_MUTATIONS,
    *OPERATOR_MUTATIONS,
]
