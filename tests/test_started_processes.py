"""Which processes rooms start: like imports, downwards only."""

import ast

import pytest

from tests.house import MAY_IMPORT, ROOMS, place, python_files
from tests.started_processes import COMPUTED, room_of, started_by


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_start_processes_downwards_only(room: str) -> None:
    wrong = [
        f"{place(path)}:{line}: {room} may not start {module}"
        for path in python_files(room)
        for module, line in sorted(started_by(ast.parse(path.read_text())))
        if module == COMPUTED or room_of(module) not in MAY_IMPORT[room] | {room, None}
    ]
    assert not wrong, "\n".join(wrong)


def test_the_processes_of_the_sidecar_are_found() -> None:
    trees = [ast.parse(path.read_text()) for path in python_files("sidecar")]
    assert {module for tree in trees for module, _ in started_by(tree)} == {
        "idlestate.sidecar",
        "idlestate.sidecar.server.advice_process",
        "idlestate.sidecar.workers.worker_process",
    }


@pytest.mark.parametrize(
    ("code", "modules"),
    [
        ("run([python, '-m', 'idlestate', 'advise', log])", ["idlestate"]),
        ("run((python, '-W', 'ignore', *('-m', 'idlestate.state')))", ["idlestate.state"]),
        ("os.execl(python, python, '-m', 'idlestate.service.cli')", ["idlestate.service.cli"]),
        ("M = 'idlestate.web'\nrun([python, '-m', M])", ["idlestate.web"]),
        ("run([python, '-m', chosen()])", [COMPUTED]),
        ("run(f'{python} -m idlestate.service.cli check', shell=True)", ["idlestate.service.cli"]),
        ("run([python, '-midlestate'])", ["idlestate"]),
        ("run(['idlestate', 'advise', log])", ["idlestate"]),
        ("runpy.run_module('idlestate.service.cli')", ["idlestate.service.cli"]),
        ("run([python, '-m', 'pip'])", ["pip"]),
        ("'''Run `python -m idlestate`.'''\nrun([java, '-version'])", []),
    ],
)
def test_each_way_to_name_a_module_is_found(code: str, modules: list[str]) -> None:
    assert [module for module, _ in started_by(ast.parse(code))] == modules


def test_the_command_line_is_in_its_room() -> None:
    assert room_of("idlestate") == room_of("idlestate.__main__") == "service"
    assert room_of("idlestate.service.cli") == "service"
    assert room_of("idlestate.sidecar") == "sidecar"
    assert room_of("pip") is None
