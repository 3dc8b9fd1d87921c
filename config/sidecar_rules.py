"""Rules between the fields of the `sidecar` section and policies."""

from collections.abc import Callable, Iterator, Mapping

from idlestate.config.loopback import is_loopback
from idlestate.config.pipeline_rules import Raw, check_policy_name, check_renamed
from idlestate.config.problems import Finding, listed
from idlestate.config.sidecar_settings import Sidecar
from idlestate.config.sql.aggregate_text import problem_with
from idlestate.retention.policy import TimeDomain
from idlestate.retention.shown_values import show

_MOST_PORT = 65_535
TimeOf = Callable[[Raw], TimeDomain | None]


def check_sidecar(
    sidecar: Raw,
    policies: Mapping[str, object],
    time_of: TimeOf,
) -> Iterator[Finding]:
    """All rules about the sidecar and its operators."""
    yield from _check_access(sidecar)
    yield from _check_ports(sidecar)
    for operator in sidecar["operators"].sections:
        yield from check_policy_name(operator["policy"], policies)
        yield from check_renamed(operator)
        if time_of(operator) is TimeDomain.EVENT:
            what = "its policy uses event time, which only a query knows"
            yield Finding(operator.path, what, "use a policy with time: processing")
        columns = operator["columns"].fields
        for key in operator["key"].items:
            if key.text is not None and columns and key.text not in columns:
                yield Finding(
                    key.path,
                    f"unknown column {show(key.text)}",
                    f"use one of {listed(columns)}",
                )
        for aggregate in operator["aggregates"].sections:
            if aggregate.text and (wrong := problem_with(aggregate.text)):
                fix = "use a function of the columns, such as count or sum(amount)"
                yield Finding(aggregate.path, wrong, fix)


def is_local(listen: str) -> bool:
    """Whether only this machine reaches an address."""
    if listen.startswith("unix:"):
        return True
    return is_loopback(listen.rpartition(":")[0])


def _check_ports(sidecar: Raw) -> Iterator[Finding]:
    """Check the workers' ports, which follow the port of the data plane."""
    workers, data, control = sidecar["workers"].value, sidecar["data"], sidecar["control"]
    host, port = _tcp(data)
    if not isinstance(workers, int) or workers < 2 or not port:
        return
    last = port + workers
    if last > _MOST_PORT:
        what = f"{workers} workers need the next {workers} ports, and {_MOST_PORT} is the last one"
        yield Finding(data.path, what, f"use a port of at most {_MOST_PORT - workers}")
    beside, taken = _tcp(control)
    if port < taken <= last and host == beside:
        what = f"port {taken} belongs to a worker: {workers} workers use ports {port + 1} to {last}"
        yield Finding(control.path, what, f"use a port above {last}")


def _tcp(plane: Raw) -> tuple[str, int]:
    """Host and port of an address; port 0 for a socket or for any free port."""
    if plane.text is None or plane.text.startswith("unix:"):
        return "", 0
    host, _, port = plane.text.rpartition(":")
    return host, int(port) if port.isascii() and port.isdigit() else 0


def _check_access(sidecar: Raw) -> Iterator[Finding]:
    """Require authentication if other machines can connect."""
    if sidecar["token_file"].text or sidecar["tls"]["client_ca_file"].text:
        return
    for plane in (sidecar["data"], sidecar["control"]):
        if plane.text is not None and not is_local(plane.text):
            yield Finding(
                plane.path,
                f"{show(plane.text)} is open to other machines, where anyone could read and change "
                "the state",
                "add token_file and tls: {cert_file: ..., key_file: ...}, or "
                "tls.client_ca_file, or listen on 127.0.0.1 or a unix: socket",
            )


def clear_text_warnings(sidecar: Sidecar) -> Iterator[Finding]:
    """Warn of a token that is sent without encryption."""
    for name, place in (("data", sidecar.data), ("control", sidecar.control)):
        if sidecar.tls is None and place is not None and not is_local(place):
            yield Finding(
                ("sidecar", name),
                f"{show(place)} is open to other machines, and anyone who can read the network "
                "traffic sees the token and all rows",
                "add tls: {cert_file: ..., key_file: ...}, unless the network is encrypted",
            )
