"""Settings of the memory allocator: freed memory is kept for the next arrays.

By default, glibc returns arrays of more than 128 KB to the system at once, and keeps an arena per
thread; a sidecar's data plane has a thread per current call. So every write of a sidecar, and every
batch of a Python worker of Spark, touches thousands of fresh pages, which costs up to a fifth of
its processor time, more on virtual machines. Arrow's own allocator keeps memory per thread and
returns what was idle for some milliseconds, while calls run on changing threads and batches are
further apart; so Arrow's arrays are allocated by the C library too.

Also, Python's garbage collector visits all objects now and then, while every call waits.
"""

import ctypes
import gc

import pyarrow as pa

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""From glibc's `malloc.h`."""
_MAPPED_BYTES = 32 << 20
"""The largest value that glibc accepts."""
_KEPT_BYTES = 128 << 20


def keep_memory() -> None:
    """Let this process keep up to 128 MB of freed memory; call it before threads are started.

    Does nothing if the C library is not glibc.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
        mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        pa.set_memory_pool(pa.system_memory_pool())


def keep_objects() -> None:
    """Exclude all current objects from garbage collection."""
    gc.collect()
    gc.freeze()
