"""Durations of tasks: the last one is recalled, and a damaged one counts as unknown."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchstack.files.durations import recalled_duration, remember_duration


@given(key=st.text(), seconds=st.floats(min_value=0.001, max_value=1e9))
def test_the_last_duration_of_any_key_is_recalled(key: str, seconds: float) -> None:
    with TemporaryDirectory() as directory:
        place = Path(directory) / "durations"
        assert recalled_duration(place, key) is None
        remember_duration(place, key, 5.0)
        remember_duration(place, key, seconds)
        assert recalled_duration(place, key) == pytest.approx(seconds, abs=0.001)
        assert recalled_duration(place, key + "x") is None
        assert len(list(place.iterdir())) == 1


@pytest.mark.parametrize("content", [b"", b"soon", b"nan", b"inf", b"-4", b"0", b"\xff\xfe", b"1 2"])
def test_a_damaged_duration_is_none(tmp_path: Path, content: bytes) -> None:
    remember_duration(tmp_path, "gate", 3.0)
    (file,) = tmp_path.iterdir()
    file.write_bytes(content)
    assert recalled_duration(tmp_path, "gate") is None


def test_a_place_that_is_no_directory_knows_nothing_and_takes_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert recalled_duration(tmp_path / "file", "gate") is None
    with pytest.raises(OSError):
        remember_duration(tmp_path / "file", "gate", 1.0)
