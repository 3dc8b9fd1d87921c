"""Loads a configuration file, or reports everything that is wrong in it.

    config = load_config("config/clicks.yaml")
    config.policy_for("clicks-by-session")          # a retention policy, resolved
    config.pipelines["clicks-by-session"].delay_ms  # a pipeline's fields

Paths in a file are kept as written; a relative path counts from the working directory, not from
the file's folder.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from idlestate.config.draft import Draft
from idlestate.config.join_policies import check_join_policy
from idlestate.config.nearest_name import nearest
from idlestate.config.pipeline_settings import Pipeline, Selector
from idlestate.config.policy_rules import Merged
from idlestate.config.policy_selectors import AGGREGATES, Choice, choose
from idlestate.config.problems import (
    ConfigError,
    FieldPath,
    Finding,
    Problem,
    listed,
    locate,
)
from idlestate.config.query_sources import origin_of
from idlestate.config.sidecar_rules import clear_text_warnings
from idlestate.config.sidecar_settings import Sidecar, SidecarOperator
from idlestate.config.sql.query_plan import QueryPlan, Retention
from idlestate.config.unbounded_growth import unbounded_advice
from idlestate.config.yaml_loader import MAX_BYTES, read_yaml
from idlestate.retention.budget import Budget
from idlestate.retention.policy import Policy
from idlestate.retention.shown_values import show


@dataclass(frozen=True, slots=True)
class Config:
    """A valid configuration file.

    Attributes:
        file: its name, as passed by the caller.
        defaults: the policy of operators without another policy.
        policies: policies by name, resolved over the defaults.
        budgets: budgets of the policies that set one, by the policy's name; None for the defaults.
        selectors: in the order of the file.
        pipelines: pipelines by name, which is the operator's uid.
        queries: the plans of pipelines with a query, by the pipeline's name.
        origins: where fields of pipelines are written that the sources of a query fill in.
        sidecar: the settings of `idlestate serve`; None if the file has no `sidecar` section.
        warnings: settings that are allowed, but probably not intended.
    """

    file: str
    defaults: Policy
    policies: Mapping[str, Policy]
    budgets: Mapping[str | None, Budget]
    selectors: tuple[Selector, ...]
    pipelines: Mapping[str, Pipeline]
    queries: Mapping[str, QueryPlan]
    origins: Mapping[FieldPath, FieldPath]
    sidecar: Sidecar | None
    warnings: tuple[Problem, ...]

    @property
    def warning_lines(self) -> str:
        """The warnings as text to append to other text, each on its own line."""
        return "".join(f"\nWARNING {warning.render()}" for warning in self.warnings)

    def choice_for(self, uid: str, state: str = AGGREGATES) -> Choice:
        """The policy that a state of an operator gets, and why; for any uid."""
        named = self._named(uid)
        return choose(uid, state, named.policy if named else None, self.selectors)

    def policy_for(self, uid: str, state: str = AGGREGATES) -> Policy:
        """The policy that a state of an operator gets; see `idlestate.config.policy_selectors`."""
        window = self.pipelines[uid].window if uid in self.pipelines else None
        if window is not None:
            return window.policy
        query = self.queries.get(uid)
        return self._kept(self.choice_for(uid, state), query.retention if query else None)

    def right_policy_for(self, uid: str) -> Policy | None:
        """The policy of a join's right rows, if they have a separate one; for any uid."""
        right = self.pipelines[uid].right if uid in self.pipelines else None
        query = self.queries.get(uid)
        if right is None or (right.policy is None and query is None):
            return None
        choice = self._right_choice(uid, right.policy)
        policy = self._kept(choice, query.second_retention if query else None)
        return None if policy == self.policy_for(uid) else policy

    def _right_choice(self, uid: str, named: str | None) -> Choice:
        if named is not None:
            return Choice(named, "named for the right rows")
        return choose(uid, AGGREGATES, None, self.selectors)

    def _kept(self, choice: Choice, hint: Retention | None) -> Policy:
        """The policy of a choice, unless a hint defines how long rows are kept."""
        policy = self.defaults if choice.policy is None else self.policies[choice.policy]
        if hint is not None and hint.ttl_ms is not None:
            return policy.with_ttl_alone(hint.ttl_ms, f"STATE_TTL in its query ({self.file})")
        what = f"policy {choice.policy}, {choice.because}" if choice.policy else choice.because
        return replace(policy, chosen_by=f"{what} ({self.file})")

    def budget_for(self, uid: str) -> Budget:
        """The budget of an operator: its own, or that of its policy; for any uid."""
        named = self._named(uid)
        if named and named.budget:
            return named.budget.limits
        return self.budgets.get(self.choice_for(uid).policy, Budget())

    def unbounded_advice(self, uid: str) -> tuple[str, str]:
        """The warning about an operator whose state grows without bound, and what to set."""
        query = self.queries.get(uid)
        return unbounded_advice(
            uid, self.choice_for(uid), by_hint=_ends(query.retention if query else None)
        )

    def right_unbounded_advice(self, uid: str) -> tuple[str, str]:
        """The same warning for the right rows of a join, which have a separate policy."""
        query, right = self.queries.get(uid), self.pipelines[uid].right
        choice = self._right_choice(uid, right.policy if right else None)
        by_hint = _ends(query.second_retention if query else None)
        return unbounded_advice(f"the right input of {uid}", choice, by_hint=by_hint)

    def _named(self, uid: str) -> Pipeline | SidecarOperator | None:
        hosted = self.sidecar.operators if self.sidecar else {}
        return self.pipelines.get(uid) or hosted.get(uid)

    def allowing_shrink(self) -> "Config":
        """The same configuration; its policies may remove any number of keys at once."""
        policies = {name: replace(each, max_shrink=1.0) for name, each in self.policies.items()}
        return replace(self, defaults=replace(self.defaults, max_shrink=1.0), policies=policies)

    def policy(self, name: str) -> Policy:
        """The policy of that name.

        Raises:
            ValueError: there is none; the message lists the existing ones.
        """
        if name in self.policies:
            return self.policies[name]
        meant = nearest(name, self.policies)
        fix = f"use {meant}" if meant else f"its policies are {listed(self.policies) or 'none'}"
        raise ValueError(f"{self.file} has no policy {show(name)}; {fix}")


def load_config(path: str | Path) -> Config:
    """Read a configuration file.

    Raises:
        ConfigError: the file cannot be read or used; the error contains all problems of the file.
    """
    file = str(path)
    try:
        with Path(path).open("rb") as opened:
            data = opened.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        fix = "pass the path of a configuration file, such as config/clicks.yaml"
        raise ConfigError([Problem(file, 0, "", f"cannot be read: {why}", fix)]) from error
    return parse(data, file)


def parse(data: bytes, file: str = "config.yaml") -> Config:
    """Read a configuration from bytes; `file` is its name in problems.

    Raises:
        ConfigError: the configuration cannot be used; the error contains all problems.
    """
    document = read_yaml(data, file)
    draft = Draft(document.value)
    found = (locate(each, file, document.lines) for each in draft.findings())
    problems = dict.fromkeys((*document.problems, *found))
    if problems or draft.model is None:
        raise ConfigError(sorted(problems, key=lambda problem: problem.line))
    bodies: dict[str | None, Merged] = {None: draft.defaults}
    bodies.update(draft.policies)
    config = Config(
        file=file,
        defaults=draft.defaults.policy(),
        policies={name: merged.policy() for name, merged in draft.policies.items()},
        budgets={
            name: merged.fields.budget.limits
            for name, merged in bodies.items()
            if merged.fields.budget
        },
        selectors=draft.model.selectors,
        pipelines=draft.model.pipelines,
        queries=draft.plans,
        origins=draft.origins,
        sidecar=draft.model.sidecar,
        warnings=(),
    )
    if wrong := [locate(each, file, document.lines) for each in _join_policies(config)]:
        raise ConfigError(wrong)
    warnings = (locate(each, file, document.lines) for each in _warnings(config))
    return replace(config, warnings=tuple(warnings))


def _join_policies(config: Config) -> Iterator[Finding]:
    """Problems with policies of joins, with their places."""
    for uid, pipeline in config.pipelines.items():
        query = config.queries.get(uid)
        path: FieldPath = ("pipelines", uid)
        policies = [(path, config.policy_for(uid), query.retention if query else None)]
        if (right := config.right_policy_for(uid)) is not None:
            policies.append(((*path, "right"), right, query.second_retention if query else None))
        for place, policy, hint in policies:
            for each in check_join_policy(pipeline.kind, place, policy, hint):
                yield replace(each, path=origin_of(each.path, config.origins))


def _warnings(config: Config) -> Iterator[Finding]:
    hosted = config.sidecar.operators if config.sidecar else {}
    paths: dict[str, FieldPath] = {uid: ("sidecar", "operators", uid) for uid in hosted}
    paths |= {uid: ("pipelines", uid) for uid in config.pipelines}
    for uid, path in paths.items():
        pipeline = config.pipelines.get(uid)
        if pipeline is not None and pipeline.between is not None:
            continue  # rows end once no match can arrive any more
        right = config.right_policy_for(uid)
        if config.policy_for(uid).is_unbounded:
            yield Finding(path, *config.unbounded_advice(uid))
        elif right is not None and right.is_unbounded:
            place = origin_of((*path, "right"), config.origins)
            yield Finding(place, *config.right_unbounded_advice(uid))
    if config.sidecar:
        yield from clear_text_warnings(config.sidecar)


def _ends(hint: Retention | None) -> bool:
    """Whether a hint, instead of a policy, determines when rows end."""
    return hint is not None and hint.ttl_ms is not None
