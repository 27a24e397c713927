"""The names of sides from a series."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchstack.errors import UsageError
from patchstack.workflow.bench_sides import series_side
from patchstack.workspace import Workspace, read_workspace

SERIES = '{patches: p, upstream: u, pin: "1111111111111111111111111111111111111111"}'


def workspace(tmp_path: Path, *names: str) -> Workspace:
    path = tmp_path / "patchstack.yaml"
    path.write_text("series:\n" + "".join(f"  {name}: {SERIES}\n" for name in names))
    return read_workspace(path)


def test_a_prefix_and_a_variant_are_of_the_series(tmp_path: Path) -> None:
    found = series_side("prefix:12", workspace(tmp_path, "one"))
    assert found is not None
    assert (found.series.name, found.at, found.variant) == ("one", 12, None)
    found = series_side("variant:two/own-cuda", workspace(tmp_path, "one", "two"))
    assert found is not None
    assert (found.series.name, found.at, found.variant) == ("two", None, "own-cuda")


@pytest.mark.parametrize("text", ["0123456789abcdef", "./bin", "bin/prefix:1"])
def test_other_sides_are_no_series(tmp_path: Path, text: str) -> None:
    assert series_side(text, workspace(tmp_path, "one")) is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("prefix:one/x", "prefix:one/x: x is not a patch number"),
        ("prefix:", "prefix:: no patch or variant is named"),
        ("prefix:three/1", "there is no series three"),
        ("prefix:1", "prefix:1: the workspace has several series"),
    ],
)
def test_a_side_that_names_nothing_is_refused(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told.replace("?", "[?]")):
        series_side(text, workspace(tmp_path, "one", "two"))


def test_without_a_workspace_there_is_no_series() -> None:
    with pytest.raises(UsageError, match="there is no workspace here"):
        series_side("prefix:1", None)
