"""How memory is kept: what one write needed and gave back, the next one needs again.

By default glibc gives arrays of more than 128 KB back to the system at once, and keeps an arena
per thread, of which the data plane has one per call under way. Then every write touches thousands
of fresh pages, which costs a fifth of its processor time, more on virtual machines. Arrow brings
an allocator of its own, which keeps memory per thread and gives back what has been idle for some
milliseconds: calls come on ever other threads, and its arrays too are taken from the C library.

And Python walks through all of its objects now and then, while every call waits.
"""

import ctypes
import gc

import pyarrow as pa

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""Of glibc's `malloc.h`."""
_MAPPED_BYTES = 32 << 20
"""The most that glibc takes."""
_KEPT_BYTES = 128 << 20


def keep_memory() -> None:
    """Let this process keep up to 128 MB that it has given back; before its threads are started.

    Nothing happens where the C library is not glibc.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
        mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        pa.set_memory_pool(pa.system_memory_pool())


def keep_objects() -> None:
    """Let all objects of now be passed over when Python looks for those nobody needs any more."""
    gc.collect()
    gc.freeze()
