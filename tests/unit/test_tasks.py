"""Tasks: a watcher sees the open tasks, and no task is left open."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from patchstack import tasks
from patchstack.tasks import Task, clock, counted, doing, longest, task, timed, watch


class Notes:
    """A watcher that records its calls."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.closed = 0

    def began(self, tasks: list[Task]) -> None:
        self.told.append(f"+ {' > '.join(one.name for one in tasks)}")

    def ended(self, tasks: list[Task]) -> None:
        last = tasks[-1]
        self.told.append(f"- {' > '.join(one.name for one in tasks)}{'' if last.typical else ' (not typical)'}")

    def close(self) -> None:
        self.closed += 1


def test_a_watcher_hears_of_tasks_inside_each_other_until_its_watch_ends() -> None:
    notes = Notes()
    end = watch(lambda: notes)
    with task("verify"), task("fetching"):
        pass
    end()
    with task("lint"):
        pass
    assert notes.told == ["+ verify", "+ verify > fetching", "- verify > fetching", "- verify"]
    assert notes.closed == 1


def test_a_watcher_is_made_for_the_first_task_and_not_before() -> None:
    made: list[Notes] = []

    def make() -> Notes:
        made.append(Notes())
        return made[-1]

    watch(make)()
    assert made == []
    end = watch(make)
    for _ in range(2):
        with task("one"):
            pass
    end()
    assert [one.closed for one in made] == [1]


def test_what_fails_ends_is_not_typical_and_leaves_nothing_open() -> None:
    notes = Notes()
    end = watch(lambda: notes)
    with pytest.raises(KeyboardInterrupt), task("outer"), task("inner"):
        raise KeyboardInterrupt
    end()
    assert notes.told[2:] == ["- outer > inner (not typical)", "- outer (not typical)"]
    assert tasks._open == []


def test_the_innermost_task_says_what_it_does_and_nobody_is_no_error() -> None:
    doing("nothing")
    with task("outer") as outer, task("inner") as inner:
        doing("sending")
        assert (outer.doing, inner.doing) == ("", "sending")


def test_items_are_counted_while_they_are_gone_through() -> None:
    seen = []
    with task("all") as this:
        for item in counted("abc", this, 3, str.upper):
            seen.append((item, this.done, this.total, this.doing))
    assert seen == [("a", 0, 3, "A"), ("b", 1, 3, "B"), ("c", 2, 3, "C")]


def test_a_decorated_function_is_a_task_at_each_call() -> None:
    notes = Notes()

    @task("adding")
    def add(one: int, other: int) -> int:
        return one + other

    end = watch(lambda: notes)
    assert add(1, 2) + add(3, 4) == 10
    end()
    assert notes.told == ["+ adding", "- adding"] * 2


def test_each_item_comes_with_the_time_that_it_took() -> None:
    assert [item for item, _ in timed("ab")] == ["a", "b"]
    assert all(0 <= seconds < 5 for _, seconds in timed("ab"))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (63, "1 min 03 s"),
        (3599.7, "1 h 00 min"),
        (7500, "2 h 05 min"),
    ],
)
def test_a_duration_for_people(seconds: float, text: str) -> None:
    assert clock(seconds) == text


@pytest.mark.parametrize(
    ("durations", "line"),
    [
        ([("greedy", 41.0), ("ops", 22.0)], "greedy took 41 s of 1 min 03 s"),
        ([("ops", 1.0), ("greedy", 1.5)], "greedy took 1.5 s of 2.5 s"),
        ([("ops", 1.0), ("greedy", 0.9)], None),
        ([("greedy", 41.0)], None),
        ([], None),
    ],
)
def test_the_slowest_is_named_if_it_was_worth_waiting_for(
    durations: Sequence[tuple[str, float]], line: str | None
) -> None:
    assert longest(durations) == line
