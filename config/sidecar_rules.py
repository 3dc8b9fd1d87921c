"""What the fields of the sidecar's part say about each other and about policies."""

import ipaddress
from collections.abc import Callable, Iterator, Mapping

from idlestate.config.pipeline_rules import CheckAggregate, Raw, check_policy_name
from idlestate.config.problems import Finding, listed, show
from idlestate.config.sidecar_models import Sidecar
from idlestate.retention.policy import TimeDomain

_MOST_PORT = 65_535
TimeOf = Callable[[Raw], TimeDomain | None]


def check_sidecar(
    sidecar: Raw,
    policies: Mapping[str, object],
    time_of: TimeOf,
    check_aggregate: CheckAggregate | None,
) -> Iterator[Finding]:
    """All rules about the sidecar and its operators."""
    yield from _check_access(sidecar)
    yield from _check_ports(sidecar)
    for operator in sidecar["operators"].sections:
        yield from check_policy_name(operator["policy"], policies)
        if time_of(operator) is TimeDomain.EVENT:
            what = "its policy goes by event time, which only a query knows"
            yield Finding(operator.path, what, "name a policy with time: processing")
        columns = operator["columns"].fields
        for key in operator["key"].items:
            if key.text is not None and columns and key.text not in columns:
                yield Finding(
                    key.path,
                    f"there is no column {show(key.text)}",
                    f"write one of {listed(columns)}",
                )
        for aggregate in operator["aggregates"].sections:
            if check_aggregate and aggregate.text and (wrong := check_aggregate(aggregate.text)):
                fix = "write a function of the columns, such as count or sum(amount)"
                yield Finding(aggregate.path, wrong, fix)


def is_local(listen: str) -> bool:
    """Whether only this machine reaches an address."""
    if listen.startswith("unix:"):
        return True
    return is_loopback(listen.rpartition(":")[0])


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by a name or address that no other has."""
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _check_ports(sidecar: Raw) -> Iterator[Finding]:
    """Workers listen on the ports that follow the data plane's."""
    workers, data, control = sidecar["workers"].value, sidecar["data"], sidecar["control"]
    host, port = _tcp(data)
    if not isinstance(workers, int) or workers < 2 or not port:
        return
    last = port + workers
    if last > _MOST_PORT:
        what = (
            f"{workers} workers take the {workers} ports that follow, and {_MOST_PORT} is the last"
        )
        yield Finding(data.path, what, f"write a port of at most {_MOST_PORT - workers}")
    beside, taken = _tcp(control)
    if port < taken <= last and host == beside:
        what = f"port {taken} is a worker's: {workers} workers take {port + 1} to {last}"
        yield Finding(control.path, what, f"write a port above {last}")


def _tcp(plane: Raw) -> tuple[str, int]:
    """Host and port of an address; port 0 for a socket, and where any port will do."""
    if plane.text is None or plane.text.startswith("unix:"):
        return "", 0
    host, _, port = plane.text.rpartition(":")
    return host, int(port) if port.isascii() and port.isdigit() else 0


def _check_access(sidecar: Raw) -> Iterator[Finding]:
    """Beyond this machine: only for clients that are known."""
    if sidecar["token_file"].text or sidecar["tls"]["client_ca_file"].text:
        return
    for plane in (sidecar["data"], sidecar["control"]):
        if plane.text is not None and not is_local(plane.text):
            yield Finding(
                plane.path,
                f"{show(plane.text)} is reached from other machines, and anybody there could read "
                "and change the state",
                "write token_file, and tls: {cert_file: ..., key_file: ...} or with that "
                "tls.client_ca_file, or listen on 127.0.0.1 or a unix: socket",
            )


def clear_text_warnings(sidecar: Sidecar) -> Iterator[Finding]:
    """What a token alone leaves open."""
    for name, place in (("data", sidecar.data), ("control", sidecar.control)):
        if sidecar.tls is None and place is not None and not is_local(place):
            yield Finding(
                ("sidecar", name),
                f"{show(place)} is reached from other machines, and whoever listens on the way "
                "reads the token and all rows",
                "write tls: {cert_file: ..., key_file: ...}, unless the network encrypts",
            )
