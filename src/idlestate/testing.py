"""Tools for tests of jobs: a fake clock, harnesses that run `retain`, `process` and `co_process`
batch by batch without a JVM, and `check_cuts`.
"""

from typing import TYPE_CHECKING

from idlestate._lazy import lazily

if TYPE_CHECKING:
    from idlestate.pipeline.check_cuts import check_cuts
    from idlestate.pipeline.co_function_harness import CoFunctionHarness
    from idlestate.pipeline.function_harness import FunctionHarness
    from idlestate.pipeline.retain_harness import RetainHarness
    from idlestate.timers.clock import FakeClock
else:
    __getattr__ = lazily(
        __name__,
        {
            "idlestate.pipeline.check_cuts": ["check_cuts"],
            "idlestate.pipeline.co_function_harness": ["CoFunctionHarness"],
            "idlestate.pipeline.function_harness": ["FunctionHarness"],
            "idlestate.pipeline.retain_harness": ["RetainHarness"],
            "idlestate.timers.clock": ["FakeClock"],
        },
    )

__all__ = [
    "CoFunctionHarness",
    "FakeClock",
    "FunctionHarness",
    "RetainHarness",
    "check_cuts",
]
