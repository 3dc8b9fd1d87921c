"""Clocks and timers: where the time comes from that the rules believe."""
