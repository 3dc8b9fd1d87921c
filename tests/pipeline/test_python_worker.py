"""When Spark's workers are forked from our process, and when from another."""

import sys
from types import SimpleNamespace

import pytest

from idlestate.pipeline import python_worker
from idlestate.pipeline.python_worker import load_once


class Settings(dict[str, str]):
    """Those of a running SparkContext."""

    def setIfMissing(self, name: str, value: str) -> None:  # noqa: N802 - Spark's name
        self.setdefault(name, value)


def session(settings: Settings, master: str, python: str = sys.executable) -> SimpleNamespace:
    java = SimpleNamespace(sc=lambda: SimpleNamespace(conf=lambda: settings))
    context = SimpleNamespace(master=master, pythonExec=python, _jsc=java)
    return SimpleNamespace(sparkContext=context)


OURS = {"spark.python.daemon.module": "idlestate.pipeline.worker_daemon"}


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[*, 4]"])
def test_workers_of_a_local_session_are_forked_with_libraries_loaded(master: str) -> None:
    settings = Settings()
    load_once(session(settings, master))  # type: ignore[arg-type]
    assert settings == OURS


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "spark://host:7077", "yarn"])
def test_executors_of_a_cluster_keep_the_daemon_of_spark(master: str) -> None:
    settings = Settings()
    load_once(session(settings, master))  # type: ignore[arg-type]
    assert settings == {}


def test_a_daemon_that_the_user_chose_stays() -> None:
    settings = Settings({"spark.python.daemon.module": "my.daemon"})
    load_once(session(settings, "local[2]"))  # type: ignore[arg-type]
    assert settings == {"spark.python.daemon.module": "my.daemon"}


def test_workers_of_another_python_keep_the_daemon_of_spark() -> None:
    settings = Settings()
    load_once(session(settings, "local[2]", "/another/python"))  # type: ignore[arg-type]
    assert settings == {}


def test_an_idlestate_that_only_this_process_finds_is_not_asked_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none_is_installed(name: str) -> None:
        raise python_worker.PackageNotFoundError(name)

    monkeypatch.setattr(python_worker, "distribution", none_is_installed)
    settings = Settings()
    load_once(session(settings, "local[2]"))  # type: ignore[arg-type]
    assert settings == {}
