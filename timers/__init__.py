"""Clocks and timers: the source of the time that the rules use."""
