"""`make observe` with a real Prometheus: every panel, rule and alert has series to look at."""

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import numpy as np
import pytest

from idlestate.backends.files.folder import Folder
from idlestate.metrics import families
from idlestate.metrics.history import SLOT_MS, SLOTS_A_DAY, History, HistoryFile
from idlestate.metrics.sidecar_metrics import OF_SIDECAR
from idlestate.metrics.spark_metrics import OF_SPARK
from idlestate.timers.clock import SystemClock
from tests.deploy.panel_queries import queries, without_thresholds
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
OPERATORS = ("carts", "visits-by-visitor")
AS_BACKGROUND_JOB = ("sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable)
QUICK = ("--scrape-interval=2s",)
UP_S = 300
DAY_S = 86_400


@pytest.mark.parametrize(
    ("expr", "plain"),
    [
        ("up == 0", "up"),
        ("a > 300 and on (x) a > on (x) 0.1 * b", "a and on (x) a - on (x) 0.1 * b"),
        ("m > 1.1 * (m offset 1d)", "m - 1.1 * (m offset 1d)"),
        ("time() - (t > 0) > 300", "time() - (t)"),
        ("k > 1e6 unless on (x) r >= 5", "k and on (x) r"),
    ],
)
def test_thresholds_are_left_out(expr: str, plain: str) -> None:
    assert without_thresholds(expr) == plain


def test_every_metric_that_is_asked_for_is_exported() -> None:
    every = {name.name for name in (*families.ALL, *OF_SIDECAR, *OF_SPARK)}
    known = re.compile(r"(?<!:)\bidlestate_\w+?(?=(?:_bucket|_count|_sum)?(?![\w:]))")
    asked = {found for _, expr in queries() for found in known.findall(expr)}
    assert len(asked) > 40
    assert asked <= every


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports: list[int] = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Observed:
    """`make observe` in a folder, with three days that Prometheus and the sidecar remember."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.ports = free_ports(3)
        now_ms = SystemClock().now_ms()
        slots = np.arange(now_ms // SLOT_MS - 3 * SLOTS_A_DAY, now_ms // SLOT_MS + 1)
        sizes = np.stack([slots, np.full(len(slots), 300), np.full(len(slots), 30_000)], axis=1)
        for uid in OPERATORS:
            History(sizes).save(
                HistoryFile(Folder(str(folder / "sidecar" / "history")), f"{uid}.npy")
            )
        past = folder / "past.txt"
        past.write_text(_past(self.ports[1], now_ms // 1000))
        backfill = ["tsdb", "create-blocks-from", "openmetrics", str(past), f"{folder}/prometheus"]
        subprocess.run([str(programs / "promtool"), *backfill], check=True, capture_output=True)
        options = ("--prometheus-port", "--sidecar-port", "--job-port")
        ports = [each for pair in zip(options, map(str, self.ports), strict=True) for each in pair]
        self.process = subprocess.Popen(
            [*AS_BACKGROUND_JOB, ROOT / "scripts/observe.py", folder, *ports, *QUICK],
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, expr: str) -> list[object]:
        """The series of an expression now."""
        query = urllib.parse.urlencode({"query": expr})
        url = f"http://127.0.0.1:{self.ports[0]}/api/v1/query?{query}"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as reply:
                found: list[object] = json.load(reply)["data"]["result"]
        except ConnectionError:
            return []
        except OSError as error:
            if "refused" in str(error):
                return []
            raise
        return found


def _past(sidecar_port: int, now_s: int) -> str:
    """What yesterday's scrapes and rules left, for expressions with an offset."""
    series = (
        "operator:idlestate_live_keys:min1d",
        'idlestate_forecast_live_keys{horizon="24h",bound="low"}',
        'idlestate_keys_expired_total{reason="idle"}',
    )
    lines = []
    for name in series:
        metric, _, labels = name.partition("{")
        kind = "counter" if metric.endswith("_total") else "gauge"
        lines.append(f"# TYPE {metric.removesuffix('_total')} {kind}")
        own = ['operator="carts"', 'job="idlestate-sidecar"', labels.rstrip("}")]
        if not metric.startswith("operator:"):
            own.append(f'instance="127.0.0.1:{sidecar_port}"')
        every = ",".join(filter(None, own))
        lines += [
            f"{metric}{{{every}}} 300 {time_s}"
            for time_s in range(now_s - 4 * DAY_S, now_s - 3 * 3600, 240)
        ]
    return "\n".join([*lines, "# EOF\n"])


@pytest.fixture
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    done = subprocess.run(
        [ROOT / "scripts/prometheus.sh"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    made = Observed(tmp_path_factory.mktemp("o"), Path(done.stdout.strip()))
    with made.process as process:
        try:
            yield made
            process.terminate()
            process.wait(PATIENCE_S)
        finally:
            process.kill()


@pytest.mark.spark
@pytest.mark.long
def test_every_panel_rule_and_alert_has_series_and_ctrl_c_stops_everything(
    observed: Observed,
) -> None:
    missing = dict(queries())
    assert len(missing) > 80
    ends_s = monotonic() + UP_S

    def found_all() -> bool:
        for where, expr in list(missing.items()):
            if observed.ask(expr):
                del missing[where]
        return not missing or monotonic() > ends_s or observed.process.poll() is not None

    while not found_all():
        signal.sigtimedwait([], 3)
    assert not missing, "\n".join(f"{where}: {expr}" for where, expr in missing.items())
    observed.process.send_signal(signal.SIGINT)
    out, _ = observed.process.communicate(timeout=PATIENCE_S)
    assert observed.process.returncode == 0, out
    assert out.splitlines()[-1] == "observe: stopped"
    for port in observed.ports:
        with socket.socket() as link:
            assert link.connect_ex(("127.0.0.1", port)) != 0, f"port {port} is still served"
