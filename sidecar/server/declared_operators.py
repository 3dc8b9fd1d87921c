"""Operators that a configuration file declares: creates them, and updates their policies."""

import pyarrow as pa

from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.config.loading import Config
from idlestate.config.sidecar_settings import SidecarOperator
from idlestate.config.sql.aggregate_text import AggregateError
from idlestate.retention.policy import TimeDomain
from idlestate.sidecar.core.operators import Host
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.sidecar.protocol.errors import DoesNotFitError

_TYPES = {
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}


def declare_all(host: Host, config: Config) -> None:
    """Create the file's operators, or find the existing ones, and set their policies.

    Operators of queries get their policies from the queries, with the batches.

    Raises:
        DoesNotFitError: an operator of the file is not the one that the sidecar holds.
    """
    host.declare_all([(each, config.policy_for(each.uid)) for each in _declarations(config)])


def check_operators(config: Config) -> None:
    """Check without a sidecar whether the file's operators can be created.

    Raises:
        DoesNotFitError: a column's type, an aggregate or a name is not valid.
    """
    for each in _declarations(config):
        each.check_columns()


def _declarations(config: Config) -> list[Declaration]:
    hosted = config.sidecar.operators if config.sidecar else {}
    return [_declaration(uid, each) for uid, each in hosted.items()]


def _declaration(uid: str, section: SidecarOperator) -> Declaration:
    types = {name: _TYPES[kind] for name, kind in section.columns.items()}
    try:
        aggregates = aggregation(section.aggregates, types)
    except AggregateError as error:
        raise DoesNotFitError(f"sidecar.operators.{uid}: {error}") from error
    spec = TableSpec(tuple((name, types[name]) for name in section.key), aggregates)
    return Declaration.of(uid, spec, TimeDomain.PROCESSING, section.shards, section.renamed)
