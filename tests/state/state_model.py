"""A naive model of keyed state: what is stored as plain lists, and Flink's rules in plain words."""


class Model:
    """One state: a list of items per key and namespace.

    An item is `[value, stamp]`, in a map `[user key, value, stamp]`. What has expired stays until a
    read, a write over it or a sweep removes it.
    """

    def __init__(self, kind, ttl):
        self.kind, self.ttl = kind, ttl
        self.stored = {}

    def lives(self, item, now):
        return self.ttl is None or item[-1] + self.ttl.ttl_ms > now

    @property
    def renews(self):
        return self.ttl is not None and self.ttl.updates_on_read

    def do(self, address, op, args, now):
        """What the call gives back."""
        kept, result = getattr(self, self.kind)(self.stored.get(address, []), op, args, now)
        self.stored[address] = kept
        return result

    def clear(self, address):
        self.stored.pop(address, None)

    def sweep(self, now):
        """Everything that has expired goes; how many items that were."""
        before = sum(map(len, self.stored.values()))
        for address, items in self.stored.items():
            self.stored[address] = [item for item in items if self.lives(item, now)]
        return before - sum(map(len, self.stored.values()))

    def expiry_times(self):
        """When each stored item has expired, in order."""
        return sorted(
            item[-1] + self.ttl.ttl_ms for items in self.stored.values() for item in items
        )

    def use(self, ttl, now):
        """Go on with another time to live; one that is switched on begins now for everything."""
        if ttl is not None and self.ttl is None:
            for address, items in self.stored.items():
                self.stored[address] = [[*item[:-1], now] for item in items]
        self.ttl = ttl

    def raw(self, address):
        """What tables hold, as `raw_of` tells it; nothing is None."""
        items = self.stored.get(address)
        if not items:
            return None
        stored = [item[-2] if self.ttl is None else item[-2:] for item in items]
        if self.kind == "map":
            return {item[0]: each for item, each in zip(items, stored, strict=True)}
        return stored if self.kind == "list" else stored[0]

    def looked_at(self, items, now):
        """What stays of items that are read, and what the reader sees of them."""
        live = [item for item in items if self.lives(item, now)]
        seen = items if self.ttl is not None and self.ttl.returns_expired else live
        if self.renews:
            live = [[*item[:-1], now] for item in live]
        return live, [item[:-1] for item in seen]

    def value(self, items, op, args, now):
        if op == "update":
            return ([] if args[0] is None else [[args[0], now]]), None
        live, seen = self.looked_at(items, now)
        return live, seen[0][0] if seen else None

    def list(self, items, op, args, now):
        if op in {"get", "get_first"}:
            live, seen = self.looked_at(items, now)
            values = [value for (value,) in seen]
            # The list goes when an iteration came to its end and met nothing that lives.
            to_the_end = op == "get" or not values
            renewed = self.renews and live
            kept = live if renewed or (to_the_end and not live) else items
            if op == "get_first":
                return kept, values[0] if values else None
            # Without a time to live a list that is not there is None.
            return kept, None if not values and self.ttl is None else values
        new = [[each, now] for each in (args[0] if op != "add" else args)]
        return (new if op == "update" else items + new), None

    def map(self, items, op, args, now):
        put = {"put": lambda: {args[0]: args[1]}, "putAll": lambda: args[0]}.get(op, dict)()
        if op == "remove" or put:
            gone = set(put) | (set(args) if op == "remove" else set())
            left = [item for item in items if item[0] not in gone]
            return left + [[key, value, now] for key, value in put.items()], None
        if op == "putAll":
            return items, None
        if op in {"get", "contains"}:
            others = [item for item in items if item[0] != args[0]]
            live, seen = self.looked_at([item for item in items if item[0] == args[0]], now)
            found = seen[0][1] if seen else None
            return others + live, bool(seen) if op == "contains" else found
        live, seen = self.looked_at(items, now)
        if op == "iterator_remove":
            live = [item for item in live if item[0] not in args[0]]
        column = {"keys": 0, "values": 1}.get(op)
        return live, sorted(seen if column is None else [entry[column] for entry in seen])

    def reducing(self, items, op, args, now):
        return self._sum(items, op, args, now, lambda there, each: (there or 0) + each)

    def aggregating(self, items, op, args, now):
        def add(there, each):
            total, count = there or (0, 0)
            return [total + each, count + 1]

        return self._sum(items, op, args, now, add)

    def _sum(self, items, op, args, now, add):
        live, seen = self.looked_at(items, now)
        there = seen[0][0] if seen else None
        if op == "get":
            return live, there
        return [[add(there, args[0]), now]], None
