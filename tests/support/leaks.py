"""Make a test fail if it leaves something open, instead of a later test.

Python warns of a socket or a file that nobody closed when it is collected, which may be during another test. So the
garbage of a test that has more open descriptors at its end than at its start is collected at once. A collection takes
about 10 ms, so first the values of its fixtures are released: most often they alone hold the descriptors.

A collection passes through all objects that may be garbage. At the end of each module they are collected, and what is
left is taken out of every later collection: otherwise each would take longer than the one before, up to a second.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

_DESCRIPTORS = "/proc/self/fd"


def _open() -> int:
    try:
        return len(os.listdir(_DESCRIPTORS))
    except OSError:
        return 0


def pytest_collection_finish() -> None:
    """Exclude the objects of the test modules from later collections: they stay, and use most of the memory."""
    _collect_once()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Exclude the objects that the tests of a module left."""
    if nextitem is None or nextitem.path != item.path:
        _collect_once()


def _collect_once() -> None:
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def leaks_are_its_own(request: pytest.FixtureRequest) -> Iterator[None]:
    """The first fixture of a test, so that it ends after all others of the test."""
    before = _open()
    yield
    if _open() > before:
        request.node.funcargs.clear()
        if _open() > before:
            gc.collect()
