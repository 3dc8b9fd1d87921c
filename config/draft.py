"""A draft of a configuration: the readable parts of a document, and all of its problems."""

from collections.abc import Iterator
from dataclasses import replace

from pydantic import ValidationError

from idlestate.config.file_model import ConfigFile
from idlestate.config.pipeline_rules import (
    Raw,
    check_pipelines,
    check_policy_name,
)
from idlestate.config.pipeline_settings import Selector
from idlestate.config.policy_rules import Merged, read_body
from idlestate.config.policy_selectors import AGGREGATES, choose
from idlestate.config.problems import Finding
from idlestate.config.pydantic_errors import findings_of
from idlestate.config.query_fields import read_queries
from idlestate.config.query_sources import origin_of
from idlestate.config.sidecar_rules import check_sidecar
from idlestate.retention.policy import TimeDomain


class Draft:
    """Everything in a document that could be read.

    Attributes:
        top: the document.
        model: the document as a model; None if a field is not valid.
        defaults: the fields of `defaults`.
        policies: the fields of each policy, with those of the defaults for missing ones, by name.
        plans: the plans of queries, by pipeline.
        origins: where fields that sources of queries fill in are written.
    """

    def __init__(self, document: object) -> None:
        """Read what can be read, without raising errors."""
        queries = read_queries(document)
        document = queries.document
        self.top = Raw((), document)
        self.plans = queries.plans
        self.origins = queries.origins
        self._query_findings = queries.findings
        self.model: ConfigFile | None = None
        self._model_findings: list[Finding] = []
        try:
            self.model = ConfigFile.model_validate(document)
        except ValidationError as error:
            self._model_findings = list(findings_of(error, ConfigFile, document))
        beneath = read_body(self.top["defaults"].value, ("defaults",))
        self.defaults = Merged(defaults=read_body(None, ()), own=beneath)
        self.policies = {
            each.name: Merged(beneath, read_body(each.value, each.path))
            for each in self.top["policies"].sections
        }
        self._selectors = [
            good for each in self.top["selectors"].items if (good := _selector(each))
        ]

    def findings(self) -> Iterator[Finding]:
        """All problems with their places; a problem may be listed twice."""
        yield from self._query_findings
        for each in self._findings():
            yield replace(each, path=origin_of(each.path, self.origins))

    def _findings(self) -> Iterator[Finding]:
        yield from self._model_findings
        for merged in (self.defaults, *self.policies.values()):
            yield from merged.check()
        named = [each["policy"] for each in self.top["selectors"].items]
        for each in self.top["pipelines"].sections:
            named += [each["policy"], each["right"]["policy"]]
            named += [of["policy"] for of in each["sources"].sections]
        for each in named:
            yield from check_policy_name(each, self.policies)
        yield from check_pipelines(self.top["pipelines"], self._time_of)
        sidecar = self.top["sidecar"]
        yield from check_sidecar(sidecar, self.policies, self._time_of)

    def _time_of(self, operator: Raw) -> TimeDomain | None:
        """The time domain of an operator's policy; None if it could not be read."""
        if "window" in operator.fields:
            return TimeDomain.EVENT
        if "policy" in operator.fields and operator["policy"].text is None:
            return None
        name = choose(operator.name, AGGREGATES, operator["policy"].text, self._selectors).policy
        merged = self.defaults if name is None else self.policies.get(name)
        return merged.time if merged else None


def _selector(raw: Raw) -> Selector | None:
    try:
        return Selector.model_validate(raw.value)
    except ValidationError:
        return None
