"""Run `patchstack bench` in this process, as the command line does."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from patchstack.cli.bench.app import bench_app
from patchstack.cli.failures import guarded
from tests.conftest import Ran

Bench = Callable[..., Ran]


def running(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Return a function that runs a bench command in the working directory."""

    def run(*args: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["bench", *args])
        capsys.readouterr()
        code = guarded(bench_app)
        said = capsys.readouterr()
        return Ran(code=code, stdout=said.out, stderr=said.err)

    return run
