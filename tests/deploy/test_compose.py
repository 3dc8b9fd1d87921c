"""The compose file fits the files that it mounts, and what it starts finds each other."""

import re
from pathlib import Path, PurePosixPath
from typing import Any

import yaml
from click.testing import CliRunner

from idlestate.config.loading import load_config
from idlestate.service.cli import main

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
SERVICES: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
SIDECAR, PROMETHEUS, GRAFANA = (SERVICES[name] for name in ("sidecar", "prometheus", "grafana"))


def mounts(service: dict[str, Any]) -> dict[PurePosixPath, Path | str]:
    """Where each folder or volume is in the container, and what it is."""
    found: dict[PurePosixPath, Path | str] = {}
    for each in service["volumes"]:
        source, target = each.split(":")[:2]
        found[PurePosixPath(target)] = (
            (DEPLOY / source).resolve() if source.startswith(".") else source
        )
    return found


def on_host(service: dict[str, Any], path: str) -> Path:
    """The file here that a path of the container names."""
    for target, source in mounts(service).items():
        if PurePosixPath(path).is_relative_to(target) and isinstance(source, Path):
            return source / PurePosixPath(path).relative_to(target)
    raise AssertionError(f"{path} is in no mounted folder")


def test_all_folders_that_are_mounted_exist() -> None:
    for service in (SIDECAR, PROMETHEUS, GRAFANA):
        for source in mounts(service).values():
            assert not isinstance(source, Path) or source.is_dir(), source


def test_the_sidecar_starts_from_a_mounted_file_and_keeps_its_state_in_a_volume() -> None:
    program, command, file = SIDECAR["command"]
    (home,) = re.findall(r"WORKDIR (\S+)", SIDECAR["build"]["dockerfile_inline"])
    assert (program, command) == ("idlestate", "serve")
    config = load_config(on_host(SIDECAR, f"{home}/{file}"))
    assert config.sidecar is not None
    folder = PurePosixPath(home) / config.sidecar.directory
    (volume,) = (target for target, source in mounts(SIDECAR).items() if isinstance(source, str))
    assert folder.is_relative_to(volume)


def test_health_check_and_prometheus_ask_where_the_sidecar_answers() -> None:
    config = load_config(ROOT / "config/sidecar.yaml")
    assert config.sidecar is not None
    _, program, *words = SIDECAR["healthcheck"]["test"]
    assert program == "idlestate"
    assert words == ["health", f"http://{config.sidecar.control}"]
    done = CliRunner().invoke(main, ["health", "http://127.0.0.1:1"])
    assert done.exit_code == 1
    assert "not a valid address" not in done.output
    flags = dict(each.split("=") for each in PROMETHEUS["command"])
    file = on_host(PROMETHEUS, flags["--config.file"])
    scraping = yaml.safe_load(file.read_text())
    targets = [job["static_configs"][0]["targets"] for job in scraping["scrape_configs"]]
    assert targets == [[config.sidecar.control]]
    assert all((file.parent / name).is_file() for name in scraping["rule_files"])


def test_prometheus_and_grafana_share_the_network_of_the_sidecar() -> None:
    for service in (PROMETHEUS, GRAFANA):
        assert service["network_mode"] == "service:sidecar"
    assert SIDECAR["ports"] == ["127.0.0.1:9090:9090", "127.0.0.1:3000:3000"]


def test_what_was_built_here_is_not_copied_into_the_image() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {".git", ".venv", "build"} <= set(ignored)
