"""Fixtures of the unit tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchstack.series.lint.runner import LintResult
from patchstack.workspace import LintPolicy, Waiver
from tests.support.builders import Changes, Fork, a_fork
from tests.support.linting import Linted, of


@pytest.fixture
def linted(tmp_path: Path) -> Linted:
    """Lint a series of steps on the builders' upstream, or the series after a change by hand."""

    def run(
        *steps: tuple[str, Changes],
        by_hand: Callable[[Fork], object] | None = None,
        waivers: tuple[Waiver, ...] = (),
        **policy: Any,
    ) -> LintResult:
        fork = a_fork(tmp_path, 3, steps or None)
        if by_hand is not None:
            by_hand(fork)
        return of(fork, LintPolicy(**policy), waivers)

    return run
