"""Exit codes of the processes of a sidecar."""

STOPPED, FAILED, IN_USE = 0, 1, 75
"""A sidecar: it was stopped; it cannot run; another sidecar uses its directory."""

ADVISED, REFUSED, BROKEN, OUT_OF_MEMORY = 0, 65, 70, 71
"""An advice process: it printed the advice; it refused the log or an argument, and standard error
contains only the reason; an unexpected error, with its stack trace; the memory limit was too low.

None is 1, with which Python and libraries in C end for reasons of their own.
"""
