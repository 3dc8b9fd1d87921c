"""XXH64 of many values of equal length, by array operations.

The library hashes one value per call; from some hundred values of 20 bytes on, this takes a tenth
of that time per value. Source: the XXH64 specification,
https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md.
"""

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(each)
    for each in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_STRIPE = 32


def xxh64(values: npt.NDArray[np.uint8], seeds: Hashes) -> Hashes:
    """The hash of each value, each with its own seed.

    Args:
        values: a contiguous row of bytes per value.
        seeds: one per value.
    """
    at, length = 0, values.shape[1]
    if length >= _STRIPE:
        lanes = [seeds + _P1 + _P2, seeds + _P2, seeds.copy(), seeds - _P1]
        while at + _STRIPE <= length:
            for i, lane in enumerate(lanes):
                _round(lane, _read(values, at + 8 * i, "<u8"))
            at += _STRIPE
        hashes = np.zeros_like(seeds)
        for lane, by in zip(lanes, (1, 7, 12, 18), strict=True):
            turned = lane.copy()
            _turn(turned, by)
            hashes += turned
        for lane in lanes:
            hashes ^= _round(np.zeros_like(lane), lane)
            hashes *= _P1
            hashes += _P4
    else:
        hashes = seeds + _P5
    hashes += np.uint64(length)
    while at + 8 <= length:
        word = _read(values, at, "<u8")
        hashes ^= _round(np.zeros_like(word), word)
        _turn(hashes, 27)
        hashes *= _P1
        hashes += _P4
        at += 8
    if at + 4 <= length:
        word = _read(values, at, "<u4")
        word *= _P1
        hashes ^= word
        _turn(hashes, 23)
        hashes *= _P2
        hashes += _P3
        at += 4
    while at < length:
        word = _read(values, at, "u1")
        word *= _P5
        hashes ^= word
        _turn(hashes, 11)
        hashes *= _P1
        at += 1
    for by, prime in ((33, _P2), (29, _P3)):
        hashes ^= hashes >> np.uint64(by)
        hashes *= prime
    hashes ^= hashes >> np.uint64(32)
    return hashes


def _round(lane: Hashes, word: Hashes) -> Hashes:
    """Mix a word, which is overwritten, into a lane in place."""
    word *= _P2
    lane += word
    _turn(lane, 31)
    lane *= _P1
    return lane


def _turn(value: Hashes, by: int) -> None:
    """Rotate bits left in place."""
    over = value >> np.uint64(64 - by)
    value <<= np.uint64(by)
    value |= over


def _read(values: npt.NDArray[np.uint8], at: int, kind: str) -> Hashes:
    """The unaligned number at an offset of each value."""
    numbers = values[:, at : at + np.dtype(kind).itemsize].view(kind)[:, 0]
    return numbers.astype(np.uint64)
