"""Reloads of the configuration file of a running pipeline.

A reload can change the pipeline's policy and its budget. Every other change needs a restart. A file
with such a change is refused as a whole, like an invalid one: the previous policy stays in effect,
and the file is read again when it is saved or SIGHUP arrives.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from idlestate.backends.checkpoint.operator_layout import layout_path
from idlestate.backends.files.folder import Folder
from idlestate.config.file_watch import FileWatch
from idlestate.config.loading import Config, load_config
from idlestate.config.pipeline_settings import Pipeline, Right
from idlestate.config.problems import render_path
from idlestate.config.query_sources import origin_of
from idlestate.errors import IdlestateError, RefusedError
from idlestate.metrics.reload_counts import ReloadCounts
from idlestate.pipeline.policy_change import POLICY_DELAY_MS, change_policy
from idlestate.retention.budget import Budget
from idlestate.retention.policy import Policy
from idlestate.retention.policy_in_words import policy_in_brief
from idlestate.service.reload_signal import HangUps
from idlestate.sidecar.protocol.connection import Address
from idlestate.timers.clock import Clock


class Reloads:
    """Reads the file again when it was saved or SIGHUP arrived.

    Args:
        config: the file with which the pipeline was started.
        uid: the pipeline.
        checkpoint: its checkpoint; new policies are added to its journal.
        counts: counts the reloads.
        clock: the driver's.
        hang_ups: notes SIGHUP.
        budgets: the pipeline's budget by its uid, which a reload replaces.
        tell: prints a line on the terminal.
        sidecar: the sidecar with its state; None to use that of the checkpoint.
        delay_ms: how far ahead a new policy takes effect.
    """

    def __init__(
        self,
        config: Config,
        uid: str,
        checkpoint: Folder,
        counts: ReloadCounts,
        clock: Clock,
        hang_ups: HangUps,
        budgets: dict[str, Budget],
        tell: Callable[[str], None],
        sidecar: Address | None = None,
        delay_ms: int = POLICY_DELAY_MS,
    ) -> None:
        self._uid = uid
        self._pipeline: Pipeline = config.pipelines[uid]
        self._policies = _policies(config, uid)
        self._file = config.file
        self._watch = FileWatch(config.file)
        self._checkpoint = checkpoint
        self._counts = counts
        self._clock = clock
        self._hang_ups = hang_ups
        self._budgets = budgets
        self._tell = tell
        self._delay_ms = delay_ms
        self._sidecar = sidecar

    def poll(self) -> None:
        """Reload the file if needed; errors are printed, not raised."""
        if not self._checkpoint.exists(layout_path(self._uid)):
            return  # the query is still starting
        asked = self._hang_ups.take()
        if not (self._watch.was_saved() or asked):
            return
        try:
            news = self._reload()
        except (IdlestateError, OSError) as error:
            self._counts.count(good=False, now_ms=self._clock.now_ms())
            self._tell(
                f"{error}\n{self._file} was not applied; the previous policy stays in effect"
            )
            return
        self._counts.count(good=True, now_ms=self._clock.now_ms())
        if news or asked:
            self._tell(news or f"reloaded {self._file}: nothing changed")

    def _reload(self) -> str | None:
        """What changed, in words; None if nothing did."""
        config = load_config(self._file)
        self._refuse_other_changes(config)
        policies, budget = _policies(config, self._uid), config.budget_for(self._uid)
        is_new_budget = budget != self._budgets[self._uid]
        self._budgets[self._uid] = budget
        if policies == self._policies:
            news = f"reloaded {self._file}: the budget of {self._uid} changed"
            return news if is_new_budget else None
        policy, right = policies
        version = change_policy(
            self._checkpoint, self._uid, policy, self._clock, self._delay_ms, self._sidecar, right
        )
        self._policies = policies
        in_words = policy_in_brief(policy)
        if right is not None:
            in_words = f"{in_words} for left rows and {policy_in_brief(right)} for right rows"
        moment = datetime.fromtimestamp(version.effective_ms / 1000, UTC)
        return (
            f"reloaded {self._file}: {self._uid} uses {in_words} (version {version.version}) for "
            f"batches from {moment:%H:%M:%S} UTC on"
            f"{config.warning_lines}"
        )

    def _refuse_other_changes(self, config: Config) -> None:
        pipeline = config.pipelines.get(self._uid)
        if pipeline is None:
            raise RefusedError(
                f"{self._file}: pipeline {self._uid} is missing; restore it, or stop the run"
            )
        changed = [
            origin_of(("pipelines", self._uid, field.alias or name), config.origins)
            for name, field in Pipeline.model_fields.items()
            if name not in {"policy", "budget", "sources"}
            and _fixed(getattr(pipeline, name)) != _fixed(getattr(self._pipeline, name))
        ]
        if changed:
            names = ", ".join(dict.fromkeys(map(render_path, changed)))
            raise RefusedError(
                f"{self._file}: {names}: changed, which needs a restart; restore the "
                "previous value, or stop the run and start it again"
            )


def _policies(config: Config, uid: str) -> tuple[Policy, Policy | None]:
    """The policy of an operator, and that of right rows if a join has one."""
    return config.policy_for(uid), config.right_policy_for(uid)


def _fixed(value: object) -> object:
    """The value of a field without what a reload may change."""
    return value.model_copy(update={"policy": None}) if isinstance(value, Right) else value
