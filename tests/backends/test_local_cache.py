"""The local cache: bounded, shared, and of no consequence when it goes."""

import contextlib
import os
import resource

import pytest

from idlestate.backends.files.local_cache import PLACE_VARIABLE, LocalCache, local_cache
from idlestate.errors import RefusedError

KB = 1024


@pytest.fixture
def cache(tmp_path):
    return LocalCache(tmp_path / "cache")


def names(cache_folder):
    return sorted(path.name for path in cache_folder.glob("*/*"))


def test_an_entry_begins_as_holes_and_takes_what_is_put_in(cache):
    entry = cache.open("here", "a", 100 * KB)
    assert entry.is_new
    assert entry.mapped.size == 100 * KB
    entry.write(50 * KB, b"found")
    assert entry.mapped.slice(50 * KB, 5).to_pybytes() == b"found"
    again = cache.open("here", "a", 100 * KB)
    assert not again.is_new
    assert again.mapped.equals(entry.mapped)
    assert os.fstat(entry.handle).st_blocks * 512 <= 8 * KB
    assert cache.open("elsewhere", "a", 100 * KB).is_new


def test_what_is_put_in_is_put_in_whole(cache, monkeypatch):
    """Also when the system takes some bytes at a time."""
    really_write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: really_write(fd, data[:3], at))
    entry = cache.open("here", "a", 100)
    entry.write(10, b"0123456789")
    assert entry.mapped.slice(10, 11).to_pybytes() == b"0123456789\0"


def test_an_entry_outlives_its_deletion(cache, tmp_path):
    entry = cache.open("here", "a", 10 * KB)
    cache.remove("here", "a")
    entry.write(0, b"still")
    assert entry.mapped.slice(0, 5).to_pybytes() == b"still"
    other = cache.open("here", "a", 10 * KB)
    assert other.is_new
    assert other.mapped.slice(0, 5).to_pybytes() == bytes(5)


def test_copies_are_whole_or_gone(cache, tmp_path):
    with cache.copying("here", "good") as copy:
        copy.write(memoryview(b"one"))
        copy.write(memoryview(b"two"))
    entry = cache.open("here", "good", 6)
    assert not entry.is_new
    assert entry.mapped.to_pybytes() == b"onetwo"
    with contextlib.suppress(KeyError), cache.copying("here", "bad") as copy:
        copy.write(memoryview(b"one"))
        raise KeyError
    assert names(tmp_path / "cache") == ["good"]


def test_a_full_disk_ends_the_copy_and_nothing_else(cache, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 * KB, hard))
    try:
        with cache.copying("here", "large") as copy:
            copy.write(memoryview(bytes(16 * KB)))
            copy.write(memoryview(bytes(1)))
        assert names(tmp_path / "cache") == []
        with pytest.raises(RefusedError, match=f"free some space there.*{PLACE_VARIABLE}"):
            cache.open("here", "large", 16 * KB)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_only_what_is_named_is_kept_of_a_place(cache, tmp_path):
    for place, name in (("here", "a"), ("here", "b"), ("elsewhere", "c")):
        cache.open(place, name, KB)
    cache.keep_only("here", {"b", "never there"})
    assert names(tmp_path / "cache") == ["b", "c"]
    cache.remove("here", "b")
    cache.remove("here", "b")
    assert names(tmp_path / "cache") == ["c"]


def test_what_was_not_opened_for_longest_goes_first(tmp_path):
    cache = LocalCache(tmp_path / "cache", limit_bytes=150 * KB)
    for name in "abc":
        with cache.copying("here", name) as copy:
            copy.write(memoryview(bytes(64 * KB)))
    for at, name in enumerate("bca"):
        path = next((tmp_path / "cache").glob(f"*/{name}"))
        os.utime(path, (at, at))
    cache.open("here", "b", 64 * KB)
    cache.trim()
    assert names(tmp_path / "cache") == ["a", "b"]


def test_a_cache_that_cannot_be_written_says_what_to_change(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    cache = LocalCache(tmp_path / "file")
    with pytest.raises(RefusedError, match=f"cannot be written.*{PLACE_VARIABLE}"):
        cache.open("here", "a", 1)
    with pytest.raises(RefusedError, match="cannot be written"):
        cache.copying("here", "a").__enter__()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes folders of others")
@pytest.mark.parametrize("which", ["cache", "place", "link"])
def test_a_cache_that_another_user_has_made_is_not_used(cache, tmp_path, which):
    cache.open("here", "a", 1)
    root = tmp_path / "cache"
    theirs = next(root.iterdir()) if which == "place" else root
    if which == "link":
        theirs = root.rename(tmp_path / "theirs")
        root.symlink_to(theirs)
    os.chown(root if which == "link" else theirs, 12_345, 12_345, follow_symlinks=False)
    with pytest.raises(RefusedError, match=rf"belongs to another user.*{PLACE_VARIABLE}"):
        cache.open("here", "b", 1)
    assert names(theirs if which == "link" else root) == ["a"]


def test_only_its_user_may_enter(cache, tmp_path):
    before = os.umask(0)
    try:
        cache.open("here", "a", 1)
    finally:
        os.umask(before)
    root = tmp_path / "cache"
    assert [each.stat().st_mode & 0o777 for each in (root, *root.iterdir())] == [0o700] * 2


def test_the_place_comes_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv(PLACE_VARIABLE, str(tmp_path / "named"))
    local_cache.cache_clear()
    try:
        local_cache().open("here", "a", 1)
        assert names(tmp_path / "named") == ["a"]
    finally:
        local_cache.cache_clear()
