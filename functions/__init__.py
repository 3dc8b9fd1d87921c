"""User functions on keyed streams: state, timers, and the loop that calls them."""
