"""Functions that a configuration file of the tests names."""

import pyarrow as pa

from idlestate import KeyedCoProcessFunction, KeyedProcessFunction
from idlestate.state import ValueStateDescriptor


class Second(KeyedProcessFunction):
    """Tells of the second row of each life, and of each life that ends."""

    count = ValueStateDescriptor(name="count", value_type=pa.int64(), default=0)

    def process_element(self, row, ctx):
        count = ctx.state(self.count)
        count.update(count.value() + 1)
        if count.value() == 2:
            yield ctx.key, row.amount

    def on_expire(self, ctx):
        yield ctx.key, -ctx.state(self.count).value()


class Limit(KeyedProcessFunction):
    """Cannot be made without an argument."""

    def __init__(self, limit):
        self.limit = limit

    def process_element(self, row, ctx):
        yield from ()


class Both(KeyedCoProcessFunction):
    """Tells of each row of the left input, and the newest limit of the right one."""

    limit = ValueStateDescriptor(name="limit", value_type=pa.int64())

    def process_element1(self, row, ctx):
        yield ctx.key, f"{row.amount} {ctx.state(self.limit).value()}"

    def process_element2(self, row, ctx):
        ctx.state(self.limit).update(row.limit)
