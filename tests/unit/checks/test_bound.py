"""A time limit stops a search of `re` that would never end."""

from __future__ import annotations

import re
import signal
import threading
import time

import pytest

from patchstack.checks.bound import TookTooLong, at_most


def test_a_search_without_end_is_stopped() -> None:
    began = time.monotonic()
    with pytest.raises(TookTooLong), at_most(0.2):
        re.search(r"(a+)+$", "a" * 40 + "b")
    assert time.monotonic() - began < 5


def test_what_ends_in_time_is_left_alone_and_the_handler_is_given_back() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with at_most(5):
        pass
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_timer_that_runs_already_is_set_again() -> None:
    signal.setitimer(signal.ITIMER_REAL, 100)
    try:
        with at_most(5):
            pass
        assert 90 < signal.getitimer(signal.ITIMER_REAL)[0] <= 100
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def test_another_thread_has_no_bound() -> None:
    done: list[bool] = []

    def work() -> None:
        with at_most(0.001):
            time.sleep(0.05)
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]
