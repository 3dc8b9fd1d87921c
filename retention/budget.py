"""The size of an operator's state above which alerts fire. It expires nothing."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """The most live keys and the most bytes of state of one operator; 0 means no limit."""

    keys: int = 0
    bytes: int = 0


def no_budget(_uid: str) -> Budget:
    """The budget of each operator without a configured one."""
    return Budget()
