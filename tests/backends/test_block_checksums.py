"""Files with a checksum for each block: what was written is read, and every damage is seen."""

import io

import numpy as np
import pyarrow as pa
import pytest

from idlestate.backends.files.file_checked_on_read import CheckedFile
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.local_file import LocalBytes
from idlestate.backends.runs.block_checksums import (
    BLOCK_BYTES,
    BlockWriter,
    data_bytes,
    what_is_wrong,
)
from idlestate.backends.shards.shard_record import RunRef
from idlestate.errors import DamagedStateError

LARGE = 20 * BLOCK_BYTES + 77
SIZES = [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, LARGE]


def written(data: bytes, piece: int = 1 << 30) -> tuple[bytes, RunRef]:
    """The file of this data, written in pieces of so many bytes."""
    sink = io.BytesIO()
    writer = BlockWriter([sink])
    for at in range(0, len(data), piece):
        assert writer.size == at
        writer.write(data[at : at + piece])
    checksum = writer.finish()
    return sink.getvalue(), RunRef("x.arrow", 0, 0, writer.size, checksum=checksum)


def noise(size: int) -> bytes:
    return np.random.default_rng(size).bytes(size)


@pytest.fixture
def large(tmp_path):
    file, ref = written(noise(LARGE))
    path = tmp_path / ref.name
    path.write_bytes(file)
    return path, ref


def opened(path, ref) -> CheckedFile:
    return CheckedFile(LocalBytes(str(path)), ref)


def need(file: CheckedFile, begin: int, stop: int) -> bytes:
    file.need(np.array([begin]), np.array([stop]))
    return file.data.slice(begin, stop - begin).to_pybytes()


@pytest.mark.parametrize("size", SIZES)
def test_a_file_is_its_data_however_it_was_cut_when_it_was_written(size):
    data = noise(size)
    files = [written(data, piece) for piece in (1 << 30, 1000, BLOCK_BYTES)]
    assert files[0] == files[1] == files[2]
    file, ref = files[0]
    assert data_bytes(len(file)) == size
    assert file[:size] == data
    assert what_is_wrong(pa.py_buffer(file), ref.bytes, ref.checksum) is None


@pytest.mark.parametrize("at", [0, BLOCK_BYTES, LARGE - 1, -1, -100])
def test_one_wrong_bit_anywhere_is_seen(large, at):
    path, ref = large
    file = bytearray(path.read_bytes())
    file[at] ^= 1
    assert "wrong checksum" in (what_is_wrong(pa.py_buffer(file), ref.bytes, ref.checksum) or "")
    path.write_bytes(file)
    with pytest.raises(DamagedStateError, match="is damaged"):
        need(opened(path, ref), 0, LARGE)


@pytest.mark.parametrize("cut", [1, 8, BLOCK_BYTES, None])
def test_half_a_file_is_seen_at_once(large, cut):
    path, ref = large
    file = path.read_bytes()
    rest = len(file) - (cut or len(file))
    path.write_bytes(file[:rest])
    length = f"{rest} of {ref.bytes} bytes"
    with pytest.raises(DamagedStateError, match=rf"is damaged \({length}\)"):
        opened(path, ref)
    mapped = Folder(str(path.parent)).open(ref.name)
    assert what_is_wrong(mapped, ref.bytes, ref.checksum) == f"is damaged: {length}"


def test_damage_is_found_where_it_is_read_and_nowhere_else(large):
    path, ref = large
    data = path.read_bytes()
    at = 9 * BLOCK_BYTES + 5
    path.write_bytes(data[:at] + b"?" + data[at + 1 :])
    file = opened(path, ref)
    assert need(file, 0, 5 * BLOCK_BYTES) == data[: 5 * BLOCK_BYTES]
    assert need(file, 15 * BLOCK_BYTES - 1, LARGE) == data[15 * BLOCK_BYTES - 1 : LARGE]
    with pytest.raises(DamagedStateError, match=f"at byte {9 * BLOCK_BYTES}"):
        need(file, at + 100, at + 101)
    assert not file.is_whole


def test_a_file_is_read_once_and_then_trusted(large, monkeypatch):
    path, ref = large
    held = LocalBytes(str(path))
    read = []
    really_read = held.read
    monkeypatch.setattr(held, "read", lambda spans: read.extend(spans) or really_read(spans))
    file = CheckedFile(held, ref)
    read.clear()
    begins = np.array([10, 9 * BLOCK_BYTES, 20, 4 * BLOCK_BYTES + 1])
    file.need(begins, np.array([BLOCK_BYTES + 1, 9 * BLOCK_BYTES, 30, 5 * BLOCK_BYTES]))
    # An empty span asks for nothing; what lies between near ones is read with them.
    assert read == [(0, 5 * BLOCK_BYTES)]
    file.need(np.array([0]), np.array([file.data.size]))
    assert read[1:] == [(5 * BLOCK_BYTES, file.data.size)]
    assert file.is_whole


@pytest.mark.parametrize("seed", range(8))
def test_every_block_of_every_span_is_verified(large, seed):
    path, ref = large
    data = path.read_bytes()
    random = np.random.default_rng(seed)
    begins = random.integers(0, LARGE, 4)
    stops = np.minimum(
        begins + random.choice([0, 1, 50, 2 * BLOCK_BYTES, 5 * BLOCK_BYTES], 4), LARGE
    )
    for at in range(0, LARGE, BLOCK_BYTES):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        file = opened(path, ref)
        is_wanted = (begins < stops) & (begins < at + BLOCK_BYTES) & (stops > at)
        if is_wanted.any():
            with pytest.raises(DamagedStateError, match=f"at byte {at}"):
                file.need(begins, stops)
        else:
            file.need(begins, stops)
