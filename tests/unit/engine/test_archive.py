"""Trees as tar streams: files of any size in little memory, and limits on unpacked content."""

from __future__ import annotations

import io
import tarfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchstack.engine.archive import Bounds, Entry, pack, unpack
from patchstack.errors import MissingError

LARGE = 300 << 20
ALL = Bounds(size=1 << 40, entries=1000)


def sparse(path: Path, size: int) -> Path:
    """Return a file that takes no space on the disk."""
    with path.open("wb") as file:
        file.write(b"head")
        file.truncate(size)
    return path


def test_a_file_comes_back_as_it_was_from_its_data_and_from_its_path(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"x" * 1500)
    entries = [
        Entry(path="a", data=b"one"),
        Entry(path="b/c", file=tmp_path / "source", executable=True),
        Entry(path="b/d", link="c"),
        Entry(path="b/e", file=tmp_path / "source"),
        Entry(path="f", data=b""),
    ]
    unpack(pack(entries), tmp_path / "back", ALL)
    assert (tmp_path / "back" / "a").read_bytes() == b"one"
    assert (tmp_path / "back" / "b" / "c").read_bytes() == b"x" * 1500
    assert (tmp_path / "back" / "b" / "c").stat().st_mode & 0o111
    assert (tmp_path / "back" / "b" / "d").read_bytes() == b"x" * 1500
    assert (tmp_path / "back" / "b" / "e").read_bytes() == b"x" * 1500
    assert (tmp_path / "back" / "f").read_bytes() == b""
    whole = b"".join(pack(entries))
    assert len(whole) % tarfile.RECORDSIZE == 0
    with tarfile.open(fileobj=io.BytesIO(whole)) as archive:
        assert archive.getnames() == [".", "a", "b", "b/c", "b/d", "b/e", "f"]


def test_a_large_file_is_sent_and_taken_a_block_at_a_time(tmp_path: Path) -> None:
    source = sparse(tmp_path / "source", LARGE)
    tracemalloc.start()
    try:
        unpack(pack([Entry(path="large", file=source)]), tmp_path / "back", ALL)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (tmp_path / "back" / "large").stat().st_size == LARGE
    assert peak < 16 << 20, peak
    (tmp_path / "back" / "large").unlink()


def test_more_bytes_than_allowed_are_refused_before_they_are_written(tmp_path: Path) -> None:
    source = sparse(tmp_path / "source", 5 << 20)
    with pytest.raises(MissingError, match="cannot be copied: more than 4 MiB"):
        unpack(pack([Entry(path="large", file=source)]), tmp_path / "back", Bounds(size=4 << 20, entries=10))
    assert not list((tmp_path / "back").rglob("large"))


def test_more_files_than_allowed_are_refused(tmp_path: Path) -> None:
    entries = [Entry(path=f"f{number}", data=b"") for number in range(20)]
    with pytest.raises(MissingError, match="cannot be copied: more than 10 files and directories"):
        unpack(pack(entries), tmp_path / "back", Bounds(size=1, entries=10))


@pytest.mark.parametrize("content", [b"no tar at all", b"x" * 5000, b"\x1f\x8b" * 600])
def test_what_is_no_archive_is_a_clear_error(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(MissingError, match="incomplete archive"):
        unpack([content], tmp_path / "back", ALL)


def test_an_archive_that_ends_early_is_a_clear_error(tmp_path: Path) -> None:
    whole = b"".join(pack([Entry(path="a", data=b"y" * 5000)]))
    with pytest.raises(MissingError, match="incomplete archive"):
        unpack([whole[:3000]], tmp_path / "back", ALL)


def test_a_file_that_becomes_shorter_while_it_is_sent_is_a_clear_error(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x" * (3 << 20))

    def cut(stream: Iterator[bytes]) -> Iterator[bytes]:
        for number, block in enumerate(stream):
            if number == 1:
                source.write_bytes(b"")
            yield block

    with pytest.raises(MissingError, match="became shorter while it was read"):
        unpack(cut(pack([Entry(path="a", file=source)])), tmp_path / "back", ALL)
