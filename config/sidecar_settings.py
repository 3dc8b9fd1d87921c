"""The `sidecar` section of a configuration file, which `idlestate serve` reads."""

from functools import partial
from typing import Annotated

from pydantic import Field

from idlestate.config import text_kinds as text
from idlestate.config import time_kinds as times
from idlestate.config.field_kinds import FieldKind, Flag, Store, refuse
from idlestate.config.number_kinds import whole
from idlestate.config.pipeline_settings import BudgetLimits
from idlestate.config.section import Section
from idlestate.retention.shown_values import show

_DAY_MS = 86_400_000


def _read_listen(value: object) -> str:
    fix = "use unix:PATH for a socket, or ADDRESS:PORT such as 127.0.0.1:9465"
    if not isinstance(value, str):
        raise refuse(f"expected an address, found {show(value)}", fix)
    path = value.removeprefix("unix:")
    host, colon, port = value.rpartition(":")
    is_tcp = bool(host and colon and port.isascii() and port.isdigit() and int(port) <= 65_535)
    if not value.isprintable() or not (path if path != value else is_tcp):
        raise refuse(f"{show(value)} is not a valid address", fix)
    if path != value:
        text.take_as_written(path)
    return value


Listen = Annotated[
    str, FieldKind(_read_listen, {"type": "string", "pattern": "^unix:.+|.+:[0-9]{1,5}$"})
]
"""Where to listen: `unix:PATH` or `ADDRESS:PORT`."""

_TYPES = (
    *("string", "binary", "boolean", "tinyint", "smallint", "int", "bigint"),
    *("float", "double", "date", "timestamp"),
)


def _read_type(value: object, words: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in words:
        raise refuse(f"{show(value)} is not a valid type", f"use one of {', '.join(words)}")
    return value


ColumnType = Annotated[str, FieldKind(partial(_read_type, words=_TYPES), {"enum": list(_TYPES)})]


class SidecarOperator(Section):
    """An operator that clients write to without a Spark query; it uses processing time."""

    columns: dict[text.Column, ColumnType] = Field(examples=["{user: string, amount: bigint}"])
    """The columns of its rows, with Spark's names for their types."""
    key: text.KeyColumns = Field(examples=["[user]"])
    """The columns that make up the key."""
    aggregates: dict[text.Column, text.Aggregate] = Field(
        min_length=1, examples=["{events: count}"]
    )
    """Aggregates per key, by the name of their column."""
    renamed: dict[text.Column, text.Column] = Field(default_factory=dict)
    """New to old names of aggregates that keep the state of the old name; may stay afterwards."""
    policy: text.Name | None = None
    """The policy, with time: processing; default: that of the most specific matching selector."""
    budget: BudgetLimits | None = None
    """How large the state may become; default: the policy's budget."""
    shards: Annotated[int, whole(1, 32_768)] = 4
    """Shards of its state; fixed by the first start."""


class Tls(Section):
    """Certificates for both planes, as PEM files."""

    cert_file: text.Place = Field(examples=["tls/server.pem"])
    """The sidecar's certificate."""
    key_file: text.Place = Field(examples=["tls/server.key"])
    """Its private key."""
    client_ca_file: text.Place | None = None
    """Clients must present a certificate from this authority."""


class Sidecar(Section):
    """A process that holds state outside of queries."""

    directory: text.LocalPlace = Field(examples=["build/sidecar"])
    """Where its state is stored; one sidecar at a time can use it."""
    backend: Store = "rocksdb"
    """How state is stored: rocksdb or heap."""
    workers: Annotated[int, whole(1, 64)] = 1
    """Number of processes that share the tables; each takes a range of the shards of every
    operator."""
    data: Listen | None = None
    """The data plane (Arrow Flight); default: the socket data.sock in the directory."""
    control: Listen | None = None
    """The control plane (HTTP); default: the socket control.sock in the directory."""
    token_file: text.Place | None = None
    """A file with a bearer token that clients must present. Listening beyond this machine requires
    this or tls.client_ca_file."""
    tls: Tls | None = None
    """Encrypts both planes; a warning is given if a token is sent to other machines without it."""
    sync: Flag = False
    """Whether acknowledged writes survive a power failure, not only a crash of the process."""
    cache_mb: Annotated[int, whole(1, 1_000_000)] = 4096
    """Cache of each operator's tables in MB, in addition to what the heap backend takes."""
    sweep_time_ms: times.PositiveSpan = Field(default=50, alias="sweep_time")
    """How long a sweep runs before other work gets its turn; default 50ms."""
    sweep_every_ms: times.PositiveSpan = Field(default=1000, alias="sweep_every")
    """How often sweeps look for expired keys; default 1s."""
    expired_retention_ms: times.PositiveSpan = Field(default=7 * _DAY_MS, alias="expired_retention")
    """How long expired records are kept for consumers that do not acknowledge them; default 7d."""
    max_clock_step_ms: times.PositiveSpan = Field(default=300_000, alias="max_clock_step")
    """How far the wall clock may jump before sweeps stop until someone intervenes; default 5m."""
    operators: dict[text.Name, SidecarOperator] = Field(default_factory=dict)
    """Operators that clients write to, by uid."""
