"""`make observe`: a demo job, a sidecar and Prometheus with the rules and alerts, until Ctrl-C.

    python scripts/observe.py build/observe

Everything listens on this machine only. Without Prometheus, the job and the sidecar run alone.
"""

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STOP_S = 30
RULES = ("rules.yaml", "alerts.yaml")

SIDECAR = """\
version: 1
defaults:
  budget: {{keys: 2000, bytes: 10MB}}
policies:
  carts:
    time: processing
    idle: {{min: 10s, max: 20s}}
    min_gap: 1s
sidecar:
  directory: {folder}/sidecar
  data: "unix:{folder}/data.sock"
  control: "127.0.0.1:{port}"
  operators:
    carts:
      columns: {{customer: string, amount: bigint}}
      key: [customer]
      aggregates: {{items: count, total: sum(amount)}}
      policy: carts
"""


def main() -> None:
    """Run until Ctrl-C, SIGTERM, or the end of one of the programs."""
    parser = argparse.ArgumentParser(description="Demo job, sidecar and Prometheus.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--prometheus-port", type=int, default=9090)
    parser.add_argument("--sidecar-port", type=int, default=9465)
    parser.add_argument("--job-port", type=int, default=9464)
    parser.add_argument("--scrape-interval", default="5s")
    options = parser.parse_args()
    folder = options.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background jobs ignore SIGINT
        signal.signal(number, signal.default_int_handler)
    config = folder / "sidecar.yaml"
    config.write_text(SIDECAR.format(folder=folder, port=options.sidecar_port))
    programs = {
        "sidecar": [*_idlestate(), "serve", str(config)],
        "job": [sys.executable, str(ROOT / "scripts/observe_job.py"), str(folder)],
    }
    programs["job"].append(str(options.job_port))
    urls = {
        "job": f"http://127.0.0.1:{options.job_port}/metrics",
        "sidecar": f"http://127.0.0.1:{options.sidecar_port}/",
    }
    prometheus = _prometheus()
    if prometheus is not None:
        targets = {"sidecar": options.sidecar_port, "job": options.job_port}
        file = folder / "prometheus.json"
        file.write_text(json.dumps(_scraping(targets, options.scrape_interval)))
        programs["prometheus"] = [
            str(prometheus),
            f"--config.file={file}",
            f"--storage.tsdb.path={folder / 'prometheus'}",
            f"--web.listen-address=127.0.0.1:{options.prometheus_port}",
        ]
        urls["prometheus"] = f"http://127.0.0.1:{options.prometheus_port}/alerts"
    try:
        with ExitStack() as stack:
            running = {
                name: stack.enter_context(_running(command, folder / f"{name}.log"))
                for name, command in programs.items()
            }
            for name, url in urls.items():
                _say(f"{name:<10} {url}")
            _say(f"logs are in {folder}; Spark takes a moment to start; Ctrl-C stops everything")
            _wait(running)
    except KeyboardInterrupt:
        _say("stopped")


def _idlestate() -> list[str]:
    return [sys.executable, "-m", "idlestate"]


def _prometheus() -> Path | None:
    done = subprocess.run(
        [str(ROOT / "scripts/prometheus.sh")], stdout=subprocess.PIPE, text=True, check=False
    )
    return Path(done.stdout.strip()) / "prometheus" if done.returncode == 0 else None


def _scraping(targets: dict[str, int], interval: str) -> dict[str, object]:
    """Prometheus's configuration; YAML reads JSON."""
    return {
        "global": {"scrape_interval": interval, "evaluation_interval": interval},
        "rule_files": [str(ROOT / "deploy/prometheus" / name) for name in RULES],
        "scrape_configs": [
            {
                "job_name": f"idlestate-{name}",
                "static_configs": [{"targets": [f"127.0.0.1:{port}"]}],
            }
            for name, port in targets.items()
        ],
    }


@contextmanager
def _running(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program in a process group of its own, so that Ctrl-C reaches it through us alone."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT, start_new_session=True
        )
    try:
        yield process
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, number)
                process.wait(STOP_S)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue


def _wait(running: dict[str, subprocess.Popen[bytes]]) -> None:
    """Wait until one of the programs ends, which none does by itself."""
    while True:
        for name, process in running.items():
            try:
                process.wait(0.5)
            except subprocess.TimeoutExpired:
                continue
            sys.exit(f"{name} ended: {shlex.join(process.args)}; see its log")  # type: ignore[arg-type]


def _say(line: str) -> None:
    sys.stdout.write(f"observe: {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
