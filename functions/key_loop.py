"""The loop over keys and their records: the only Python that runs once per record.

Before a record at t, a key's timers up to t fire in order of time and name, but none after the
deadline; then the life ends if its deadline is not after t; then the record is processed. After the
records, the same is done up to the time of the batch. A life also ends, without `on_expire`, if it
has no state and no timer left after a call. States that expired by State TTL do not count.
"""

from collections.abc import Sequence
from typing import Any

from idlestate.functions.errors import FunctionError, error_of
from idlestate.functions.function import KeyedProcessFunction
from idlestate.functions.function_context import FunctionContext
from idlestate.functions.one_key_calls import call_name
from idlestate.functions.rejected_calls import RejectedCalls, SavedKey
from idlestate.functions.state_cells import Cell
from idlestate.functions.visited_keys import KeysToVisit, Visited
from idlestate.retention.policy import FOREVER_MS, Policy
from idlestate.retention.rules import NEVER_MS
from idlestate.retention.single_life import SingleLife

MOST_TIMERS_AT_ONCE = 10_000
"""If more timers of a key than this fire without time advancing, the function sets them in an
endless loop.
"""


class KeyLoop:
    """One function, over keys."""

    def __init__(
        self,
        uid: str,
        function: KeyedProcessFunction,
        context: FunctionContext,
        cells: Sequence[Cell],
        policy: Policy,
        checks: RejectedCalls | None = None,
    ) -> None:
        """The function with its states, under a policy; with `checks`, calls that fail are undone
        and rejected.
        """
        self._uid, self._function, self._context, self._cells = uid, function, context, cells
        self._checks = checks
        self._life = SingleLife(policy)
        self._has_ttl = any(cell.has_ttl for cell in cells)
        self._sees_ends = type(function).on_expire is not KeyedProcessFunction.on_expire
        self._is_open = False
        self._key = 0
        self._ended_at_ms: int | None = None
        self._in = "process_element"
        self.visited = visited = Visited(contents=[[] for _ in cells])
        # Looked up once, because a batch keeps nearly as many keys as it has records.
        self._add_kept, self._add_life = visited.kept.append, visited.lives.append
        self._add_timers, self._add_wakes = visited.timers.append, visited.wakes_at_ms.append
        adds = [contents.append for contents in visited.contents]
        self._add_contents = list(zip(cells, adds, strict=True))

    # One method, and comparisons instead of max(), because calls would cost as much as everything
    # else.
    def visit(  # noqa: PLR0912, PLR0915
        self, given: KeysToVisit, upto_ms: int | None
    ) -> None:
        """Process the keys, and close what is due at `upto_ms` (None: nothing).

        Raises:
            FunctionError: the function raised an error.
        """
        context, cells, life, visited = self._context, self._cells, self._life, self.visited
        process, output, calls = self._function.process_element, visited.output, visited.calls
        rows, times, reads = given.rows, given.times_ms, given.are_reads
        has_ttl = self._has_ttl
        saved: SavedKey | None = None
        try:
            for key_number, (key, count) in enumerate(zip(given.keys, given.counts, strict=True)):
                self._key, self._ended_at_ms, context.key = key_number, None, key
                old = given.lives[key_number]
                if old is None:
                    self._is_open, seen_ms = False, NEVER_MS
                else:
                    self._is_open = True
                    life.resume(*old)
                    seen_ms = max(old[1], old[2])
                    for cell, contents in zip(cells, given.contents, strict=True):
                        cell.content = contents[key_number]
                    timers = context.timers = given.timers[key_number] or {}
                    context.wakes_at_ms = min(timers.values()) if timers else FOREVER_MS
                for _ in range(count):
                    t_ms = next(times)
                    if t_ms < seen_ms and self._is_open:  # a life that left nothing has no effect
                        t_ms = seen_ms
                    if self._is_open and (
                        life.deadline_ms <= t_ms or context.wakes_at_ms <= t_ms or has_ttl
                    ):
                        self._settle(t_ms)
                    row, before_ms = next(rows), seen_ms
                    self._in = row._method  # noqa: SLF001 - a name no column has
                    if self._checks is not None:
                        saved = self._saved()
                    try:
                        if reads is not None and next(reads):
                            self._read(row, t_ms)
                            if self._is_open:
                                seen_ms = t_ms
                            continue
                        if self._is_open:
                            life.write(t_ms)
                        else:
                            self._begin(t_ms)
                        seen_ms = context.timestamp_ms = t_ms
                        found = process(row, context)
                        if found is not None:
                            before = len(output)
                            output.extend(found)
                            if len(output) != before:
                                calls.append((len(output), self._in, key, t_ms))
                        if saved is not None:
                            self._check(saved.outputs)
                        if not context.timers:
                            self._end_if_empty()
                    except Exception as error:
                        if saved is None:
                            raise
                        self._reject(saved, error, row)
                        seen_ms = before_ms
                if (
                    self._is_open
                    and upto_ms is not None
                    and (life.deadline_ms <= upto_ms or context.wakes_at_ms <= upto_ms or has_ttl)
                ):
                    self._settle(upto_ms)
                if self._is_open:
                    self._keep()
                elif self._is_gone:
                    visited.gone.append(visited.ends[-1])
        except FunctionError:
            raise
        except (
            BaseException
        ) as error:  # sys.exit and interrupts would end workers without a message
            raise self._error(error) from error

    @property
    def _is_gone(self) -> bool:
        """Whether the key's last known event in this batch is its expiry."""
        return self._ended_at_ms is not None and self._ended_at_ms != NEVER_MS

    def _begin(self, t_ms: int) -> None:
        self._life.begin(t_ms)
        self._is_open = True
        for cell in self._cells:
            cell.content = None
        self._context.timers, self._context.wakes_at_ms = {}, FOREVER_MS
        self.visited.births.append((self._key, t_ms, self._ended_at_ms))
        self._ended_at_ms = NEVER_MS

    def _read(self, row: Any, t_ms: int) -> None:
        """Process a read-only record."""
        context = self._context
        if self._is_open:
            self._life.read(t_ms)
        else:
            for cell in self._cells:
                cell.content = None
            context.timers, context.wakes_at_ms = {}, FOREVER_MS
        context.timestamp_ms = t_ms
        self._look(self._function.process_element, (row, context), self._in, t_ms)

    def _look(self, method: Any, arguments: Any, call: str, t_ms: int) -> None:
        """Make a call that must not change anything."""
        self._in = call
        before = [cell.seen() for cell in self._cells], dict(self._context.timers)
        first = len(self.visited.output)
        self._emit(method(*arguments), call, t_ms)
        if self._checks is not None:
            self._check(first)
        if before != ([cell.seen() for cell in self._cells], self._context.timers):
            why = "on_expire" if call == "on_expire" else "a record that only reads (read_when)"
            raise self._error(f"changed a state or timer, which {why} must not do")

    def _settle(self, upto_ms: int) -> None:
        """Fire the timers of the open life and check its deadline, up to a time."""
        context, life, fired = self._context, self._life, 0
        reach_ms = min(upto_ms, life.deadline_ms)
        last_ms = NEVER_MS
        while context.wakes_at_ms <= reach_ms:
            due_ms = context.wakes_at_ms
            fired = fired + 1 if due_ms <= last_ms else 0
            last_ms = max(last_ms, due_ms)
            self._fire(due_ms)
            if not self._is_open:
                return
            if fired > MOST_TIMERS_AT_ONCE:
                raise self._error(
                    f"set timers at or before their own time {fired} times; set them later"
                )
        if self._has_ttl and self._void_at_ms() <= min(upto_ms, life.deadline_ms - 1):
            self._is_open = False
        elif life.deadline_ms <= upto_ms:
            self._expire()

    def _fire(self, due_ms: int) -> None:
        context = self._context
        timers = context.timers
        timer = min(
            (each for each, at_ms in timers.items() if at_ms == due_ms),
            key=lambda each: "" if isinstance(each, int) else each,
        )
        del timers[timer]
        context.wakes_at_ms = min(timers.values(), default=FOREVER_MS)
        context.timestamp_ms, self._in = due_ms, "on_timer"
        name = None if isinstance(timer, int) else timer
        saved = None if self._checks is None else self._saved()
        try:
            self._emit(self._function.on_timer(name, context), "on_timer", due_ms)
            if saved is not None:
                self._check(saved.outputs)
        except Exception as error:
            if saved is None:
                raise
            self._reject(saved, error, None)
        if not context.timers:
            self._end_if_empty()

    def _expire(self) -> None:
        deadline_ms, reason = self._life.deadline_ms, self._life.reason
        self._context.timestamp_ms = deadline_ms
        if self._sees_ends:
            saved = None if self._checks is None else self._saved()
            try:
                self._look(self._function.on_expire, (self._context,), "on_expire", deadline_ms)
            except Exception as error:
                if saved is None:
                    raise
                self._reject(saved, error, None)
        self._is_open, self._ended_at_ms = False, deadline_ms
        self.visited.ends.append((self._key, deadline_ms, reason))

    def _end_if_empty(self) -> None:
        """End a life without states; there is no timer."""
        for cell in self._cells:
            if cell.content is not None:
                return
        self._is_open = False

    def _void_at_ms(self) -> int:
        """When the open life becomes empty because all of its states expired."""
        if self._context.timers:
            return FOREVER_MS
        ends = [cell.ends_at_ms() for cell in self._cells if cell.content is not None]
        return max(ends, default=NEVER_MS)  # a changed function may have no states left

    def _keep(self) -> None:
        life, context = self._life, self._context
        self._add_kept(self._key)
        self._add_life((life.created_at_ms, life.written_at_ms, life.read_at_ms, life.armed_at_ms))
        for cell, add in self._add_contents:
            add(cell.content)
        self._add_timers(context.timers)
        wakes_at_ms = context.wakes_at_ms
        if self._has_ttl:
            wakes_at_ms = min(wakes_at_ms, self._void_at_ms())
        self._add_wakes(wakes_at_ms)

    def _emit(self, found: Any, call: str, t_ms: int) -> None:
        if found is not None:
            before = len(self.visited.output)
            self.visited.output.extend(found)
            if len(self.visited.output) != before:
                count = len(self.visited.output)
                self.visited.calls.append((count, call, self._context.key, t_ms))

    def _error(self, problem: object) -> FunctionError:
        context, call = self._context, call_name(self._function, self._in)
        return error_of(self._uid, call, context.key, context.timestamp_ms, problem)

    def _saved(self) -> SavedKey:
        context, visited = self._context, self.visited
        return SavedKey(
            self._is_open,
            self._ended_at_ms,
            self._life.times_ms(),
            [cell.copied() for cell in self._cells],
            dict(context.timers),
            context.wakes_at_ms,
            len(visited.births),
            len(visited.output),
            len(visited.calls),
        )

    def _check(self, first: int) -> None:
        """Check the rows that a call yielded, from `first` on."""
        assert self._checks is not None
        problem = self._checks.problem(self.visited.output[first:])
        if problem is not None:
            raise self._error(problem)

    def _reject(self, saved: SavedKey, problem: Exception, row: Any) -> None:
        """Undo all effects of a call, and note what is shown of it."""
        assert self._checks is not None
        error = problem if isinstance(problem, FunctionError) else self._error(problem)
        self.visited.failed.append(self._checks.shown(error, row))
        context, visited = self._context, self.visited
        self._is_open, self._ended_at_ms = saved.is_open, saved.ended_at_ms
        self._life.resume(*saved.times_ms)
        for cell, content in zip(self._cells, saved.contents, strict=True):
            cell.content = content
        context.timers, context.wakes_at_ms = saved.timers, saved.wakes_at_ms
        del visited.births[saved.births :], visited.output[saved.outputs :]
        del visited.calls[saved.calls :]
