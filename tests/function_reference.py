"""A slow model of `process`: one record at a time, on dicts; it shares no code with the product."""

from typing import Any

FOREVER = 2**63 - 1


class Cell:
    """One state of one key: items with stamps, in order."""

    def __init__(self, descriptor: Any, model: "Model") -> None:
        self.of, self.model = descriptor, model
        self.items: list[list[Any]] = []  # user key or None, value, stamp
        ttl = descriptor.ttl
        self.ttl_ms = None if ttl is None else ttl.ttl_ms
        self.renews = ttl is not None and ttl.updates_on_read

    def live(self, *, read: bool) -> list[list[Any]]:
        now = self.model.timestamp_ms
        if self.ttl_ms is not None:
            self.items = [each for each in self.items if each[2] + self.ttl_ms > now]
            if read and self.renews:
                for each in self.items:
                    each[2] = now
        return self.items

    def one(self, user_key: Any, *, read: bool) -> Any:
        self.live(read=False)
        for each in self.items:
            if each[0] == user_key:
                if read and self.ttl_ms is not None and self.renews:
                    each[2] = self.model.timestamp_ms
                return each[1]
        return None

    def put(self, user_key: Any, value: Any) -> None:
        self.live(read=False)
        for each in self.items:
            if each[0] == user_key:
                each[1:] = [value, self.model.timestamp_ms]
                return
        self.items.append([user_key, value, self.model.timestamp_ms])

    def remove(self, user_key: Any) -> None:
        self.live(read=False)
        self.items = [each for each in self.items if each[0] != user_key]

    def clear(self) -> None:
        self.items = []

    def ends_ms(self) -> int:
        if self.ttl_ms is None:
            return FOREVER
        return max(each[2] for each in self.items) + self.ttl_ms


class Value(Cell):
    def value(self) -> Any:
        found = self.one(None, read=True)
        if found is None and self.ttl_ms is None:
            return self.of.default
        return found

    def update(self, value: Any) -> None:
        self.put(None, value)


class Listed(Cell):
    def add(self, value: Any) -> None:
        self.live(read=False)
        self.items.append([None, value, self.model.timestamp_ms])

    def get(self) -> list[Any]:
        return [each[1] for each in self.live(read=True)]


class Mapped(Cell):
    def get(self, user_key: Any) -> Any:
        return self.one(user_key, read=True)

    def entries(self) -> list[tuple[Any, Any]]:
        return [(each[0], each[1]) for each in self.live(read=True)]


class Reduced(Cell):
    def add(self, value: Any) -> None:
        old = self.one(None, read=False)
        self.put(None, value if old is None else self.of.reduce(old, value))

    def get(self) -> Any:
        return self.one(None, read=True)


class Aggregated(Cell):
    def add(self, value: Any) -> None:
        function = self.of.aggregate
        old = self.one(None, read=False)
        old = function.create_accumulator() if old is None else old
        self.put(None, function.add(value, dict(old)))

    def get(self) -> Any:
        found = self.one(None, read=True)
        return None if found is None else self.of.aggregate.get_result(found)


CELLS = {
    "value": Value,
    "list": Listed,
    "map": Mapped,
    "reducing": Reduced,
    "aggregating": Aggregated,
}


class Model:
    """One key at a time; it is the context of the function too.

    Args:
        function: the function, which keeps nothing in itself.
        descriptors: its states.
        policy: with idle_min_ms, idle_max_ms, ttl_ms, max_lifetime_ms.
    """

    def __init__(self, function: Any, descriptors: list[Any], policy: Any) -> None:
        self.function, self.descriptors, self.policy = function, descriptors, policy
        self.lives: dict[Any, dict[str, Any]] = {}
        self.rows: list[tuple[Any, ...]] = []
        self.key: Any = None
        self.timestamp_ms = 0

    # ---------------------------------------------------------- the context

    def state(self, descriptor: Any) -> Any:
        return self.lives[self.key]["cells"][descriptor.name]

    def timer(self, name: str, at_ms: int) -> None:
        self.lives[self.key]["timers"][name] = at_ms

    def register_timer(self, at_ms: int) -> None:
        self.lives[self.key]["timers"][at_ms] = at_ms

    def delete_timer(self, timer: Any) -> None:
        self.lives[self.key]["timers"].pop(timer, None)

    # ---------------------------------------------------------- time

    def record(self, key: Any, t_ms: int, row: Any, *, is_read: bool = False) -> None:
        life = self.lives.get(key)
        if life is not None:
            t_ms = max(t_ms, life["written"], life["read"])
            self.reach(key, t_ms)
        is_new = key not in self.lives
        if is_new:
            cells = {each.name: CELLS[each.kind.value](each, self) for each in self.descriptors}
            self.lives[key] = {
                "created": t_ms, "written": t_ms, "read": -FOREVER, "cleanup": None,
                "cells": cells, "timers": {},
            }  # fmt: skip
        life = self.lives[key]
        life["read" if is_read else "written"] = t_ms
        arms = not is_read or self.policy.update.value == "on_read_and_write"
        if arms and self.policy.idle_min_ms > 1 and (
            life["cleanup"] is None or t_ms + self.policy.idle_min_ms > life["cleanup"]
        ):  # fmt: skip
            life["cleanup"] = t_ms + self.policy.idle_max_ms
        self.call(key, t_ms, lambda: self.function.process_element(row, self))
        if not is_read:
            self.drop_if_empty(key)
        elif is_new:
            del self.lives[key]  # a read begins none

    def sweep(self, upto_ms: int) -> None:
        for key in list(self.lives):
            self.reach(key, upto_ms)

    def reach(self, key: Any, upto_ms: int) -> None:
        while key in self.lives:
            life = self.lives[key]
            deadline, void = self.deadline(life), self.void(life)
            timers = sorted(
                (at_ms, "" if isinstance(name, int) else name, name)
                for name, at_ms in life["timers"].items()
            )
            if timers and timers[0][0] <= min(upto_ms, deadline):
                at_ms, name, identity = timers[0]
                del life["timers"][identity]
                self.call(key, at_ms, lambda: self.function.on_timer(name or None, self))  # noqa: B023
                self.drop_if_empty(key)
            elif void <= upto_ms and void < deadline:
                del self.lives[key]
            elif deadline <= upto_ms:
                self.call(key, deadline, lambda: self.function.on_expire(self))
                del self.lives[key]
            else:
                return

    def deadline(self, life: dict[str, Any]) -> int:
        ends = [FOREVER]
        if life["cleanup"] is not None:
            ends.append(life["cleanup"])
        if self.policy.ttl_ms:
            counts = self.policy.ttl_update.value == "on_read_and_write"
            last = max(life["written"], life["read"]) if counts else life["written"]
            ends.append(last + self.policy.ttl_ms)
        if self.policy.max_lifetime_ms:
            ends.append(life["created"] + self.policy.max_lifetime_ms)
        return min(ends)

    def void(self, life: dict[str, Any]) -> int:
        held = [cell for cell in life["cells"].values() if cell.items]
        if life["timers"] or not held:
            return FOREVER
        return max(cell.ends_ms() for cell in held)

    def call(self, key: Any, t_ms: int, what: Any) -> None:
        self.key, self.timestamp_ms = key, t_ms
        found = what()
        if found is not None:
            self.rows.extend(found)

    def drop_if_empty(self, key: Any) -> None:
        life = self.lives[key]
        if not life["timers"] and not any(cell.items for cell in life["cells"].values()):
            del self.lives[key]
