"""Harnesses of user functions that can restrict calls to one form."""

from dataclasses import replace

from idlestate.functions.bound_function import BoundFunction
from idlestate.functions.process_step import ProcessStep
from idlestate.pipeline.operator_spec import OperatorSpec
from idlestate.pipeline.retain_harness import Events, OperatorHarness


class HarnessOfForms(OperatorHarness[Events]):
    """One operator that calls a function, fed batch by batch."""

    @property
    def forms(self) -> tuple[str, ...]:
        """The forms in which the function can be called, as in `BoundFunction`."""
        form = _function_of(self._spec).form
        return ("keyed", "batched") if form == "both" else (form,)

    def use_form(self, form: str) -> None:
        """Call the function only in this form from now on."""
        bind = self._bind
        assert bind is not None

        def bound(spec: OperatorSpec) -> OperatorSpec:
            spec = bind(spec)
            return replace(spec, operator_step=ProcessStep(replace(_function_of(spec), form=form)))

        self._bind = bound
        self.restart()


def _function_of(spec: OperatorSpec) -> BoundFunction:
    assert isinstance(spec.operator_step, ProcessStep)
    return spec.operator_step.bound
