"""The part of a configuration file that `idlestate serve` goes by."""

from functools import partial
from typing import Annotated

from pydantic import Field

from idlestate.config import text_kinds as text
from idlestate.config import time_kinds as times
from idlestate.config.kinds import Flag, Kind, Store, refuse, whole
from idlestate.config.models import Section
from idlestate.config.problems import show

_DAY_MS = 86_400_000


def _read_listen(value: object) -> str:
    fix = "write unix:PATH for a socket, or ADDRESS:PORT such as 127.0.0.1:9465"
    if not isinstance(value, str):
        raise refuse(f"expected an address, found {show(value)}", fix)
    path = value.removeprefix("unix:")
    host, colon, port = value.rpartition(":")
    is_tcp = bool(host and colon and port.isascii() and port.isdigit() and int(port) <= 65_535)
    if not value.isprintable() or not (path if path != value else is_tcp):
        raise refuse(f"{show(value)} is no address", fix)
    return value


Listen = Annotated[
    str, Kind(_read_listen, {"type": "string", "pattern": "^unix:.+|.+:[0-9]{1,5}$"})
]
"""Where to listen: `unix:PATH` or `ADDRESS:PORT`."""

_TYPES = (
    *("string", "binary", "boolean", "tinyint", "smallint", "int", "bigint"),
    *("float", "double", "date", "timestamp"),
)


def _read_type(value: object, words: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in words:
        raise refuse(f"{show(value)} is no type", f"write one of {', '.join(words)}")
    return value


ColumnType = Annotated[str, Kind(partial(_read_type, words=_TYPES), {"enum": list(_TYPES)})]


class HostedOperator(Section):
    """An operator that clients write to without a Spark query; its time is processing time."""

    columns: dict[text.Column, ColumnType] = Field(examples=["{user: string, amount: bigint}"])
    """The columns of its rows, and their types in Spark's words."""
    key: text.KeyColumns = Field(examples=["[user]"])
    """The columns that make up the key."""
    aggregates: dict[text.Column, text.Aggregate] = Field(
        min_length=1, examples=["{events: count}"]
    )
    """What is kept per key, by the name of its column."""
    policy: text.Name | None = None
    """The policy, with time: processing; default the one of the selector that fits best."""
    shards: Annotated[int, whole(1, 32_768)] = 4
    """Parts of its state; fixed by the first start."""


class Tls(Section):
    """Certificates for both planes, as PEM files."""

    cert_file: text.Place = Field(examples=["tls/server.pem"])
    """The sidecar's certificate."""
    key_file: text.Place = Field(examples=["tls/server.key"])
    """Its private key."""
    client_ca_file: text.Place | None = None
    """Clients need a certificate of this authority."""


class Sidecar(Section):
    """A process that keeps state outside of queries."""

    directory: text.Place = Field(examples=["build/sidecar"])
    """Where its state is; one sidecar at a time."""
    backend: Store = "rocksdb"
    """Where state is kept: rocksdb or heap."""
    workers: Annotated[int, whole(1, 64)] = 1
    """Over how many processes the tables are spread; each takes a range of every operator's
    shards."""
    data: Listen | None = None
    """The data plane (Arrow Flight); default a socket data.sock in the directory."""
    control: Listen | None = None
    """The control plane (HTTP); default a socket control.sock in the directory."""
    token_file: text.Place | None = None
    """A file with a bearer token that clients have to show; needed beyond this machine, or
    tls.client_ca_file."""
    tls: Tls | None = None
    """Encrypts both planes; a token that goes to other machines without it is warned about."""
    sync: Flag = False
    """Whether what was acknowledged outlives a loss of power too, not only of the process."""
    cache_mb: Annotated[int, whole(1, 1_000_000)] = 4096
    """How much of its tables each operator may keep in memory, beside what heap is."""
    budget_ms: times.PositiveSpan = Field(default=50, alias="budget")
    """How long a sweep works before others get their turn; default 50ms."""
    sweep_every_ms: times.PositiveSpan = Field(default=1000, alias="sweep_every")
    """How often sweeps look for what is due; default 1s."""
    expired_retention_ms: times.PositiveSpan = Field(default=7 * _DAY_MS, alias="expired_retention")
    """How long expired records wait for consumers that do not acknowledge them; default 7d."""
    max_clock_step_ms: times.PositiveSpan = Field(default=300_000, alias="max_clock_step")
    """How far the wall clock may be set before sweeps stop and wait for a person; default 5m."""
    operators: dict[text.Name, HostedOperator] = Field(default_factory=dict)
    """Operators that clients write to, by uid."""
