"""Only regular files of a bounded size are read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from patchstack.files.regular import read_regular


def test_a_regular_file_is_read_also_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "file") == read_regular(tmp_path / "link", 4) == b"text"


def test_fifos_devices_and_directories_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("fifo", "zero"):
        with pytest.raises(OSError, match=r"not a regular file"):
            read_regular(tmp_path / name)
    with pytest.raises(IsADirectoryError):
        read_regular(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "missing")


def test_no_file_is_read_that_is_too_large(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(OSError, match=r"too large: 1099511627776 bytes, the limit is 268435456"):
        read_regular(tmp_path / "sparse")
