"""How large the state of an operator may become before somebody is told. It expires nothing."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """The most live keys and the most bytes of state of one operator; 0 means no limit."""

    keys: int = 0
    bytes: int = 0


def no_budget(_uid: str) -> Budget:
    """The budget of each operator where none is set."""
    return Budget()
