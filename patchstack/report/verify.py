"""Show the result of `patchstack verify` as a table, a summary line, and explanations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from patchstack.report.table import Give, Table
from patchstack.report.text import patch_count
from patchstack.series.files.names import stem_of
from patchstack.series.verify.states import Drift, Row, State, Verification

_SHOWN_LINES = 30

STATE_STYLES = {
    **{state.value: "red" for state in State},
    State.OK.value: "green",
    State.INHERITS.value: "yellow",
    State.SKIPPED.value: "yellow",
}


def verify_table(result: Verification) -> Table:
    """Return a table with the number, subject, prefix tree, fork commit and state of each patch.

    A patch without a unique number is shown by its name.
    """
    shared = _shared(result)
    return Table(
        titles=("number", "subject", "prefix tree", "fork commit", "state"),
        rows=[
            (
                _number(row, shared),
                row.subject,
                (row.tree or "-")[:12],
                (row.fork_commit or "-")[:12],
                row.state.value,
            )
            for row in result.rows
        ],
        styles=STATE_STYLES,
        gives={"subject": Give.FOLD},
    )


def _number(row: Row, shared: frozenset[int]) -> str:
    if row.number is not None and row.number not in shared:
        return f"{row.number:04d}"
    return "-" if row.file is None else stem_of(row.file)


def _shared(result: Verification) -> frozenset[int]:
    """Return the numbers that more than one patch has."""
    counts = Counter(row.number for row in result.rows if row.number is not None)
    return frozenset(number for number, count in counts.items() if count > 1)


def truth(result: Verification) -> str:
    """Return the summary line.

    The line states whether the series holds, the base, the applied tree, and the expected tree with its origin.
    """
    word = {True: "holds", False: "does not hold", None: "not compared"}[result.holds]
    expected = "nothing to compare with"
    if result.expected_tree is not None:
        expected = f"expected {result.expected_tree} from {result.expected_from}"
    return (
        f"{result.series}: {word}: base {result.base_commit} + {result.applied_count} of "
        f"{patch_count(result.patch_count)} = {result.applied_tree}; {expected}"
    )


def explanation(result: Verification) -> Iterator[str]:
    """Yield the lines after the table: the problems of patches, then the drift as sentences and hunks."""
    shown_as_drift = {patch.file for patch in result.drift.patches} if result.drift else set()
    inherited: dict[str, list[str]] = {}
    shared = _shared(result)
    for row in result.rows:
        if row.state is State.INHERITS:
            inherited.setdefault(row.detail, []).append(_number(row, shared))
        elif row.state not in (State.OK, State.SKIPPED, State.UNMIRRORED) and row.file not in shown_as_drift:
            yield f"{row.label}: {row.state.value}"
            yield from (f"    {line}" for line in row.reasons)
    skipped = [_number(row, shared) for row in result.rows if row.state is State.SKIPPED]
    if skipped:
        yield f"{_span(skipped)} skipped: an earlier patch does not apply (--keep-going tries them)"
    if result.drift is not None:
        yield from _drift(result.drift)
    for detail, numbers in inherited.items():
        yield f"{_span(numbers)} inherit{'s' if len(numbers) == 1 else ''}: {detail}"
    listed = {f"{row.label}: {row.state}: {row.detail}" for row in result.rows}
    if result.first_problem and result.first_problem not in listed:
        yield result.first_problem


def _span(numbers: list[str]) -> str:
    """Return patch numbers as text. If there are more than six, only the first and the last are named."""
    return ", ".join(numbers) if len(numbers) <= 6 else f"{numbers[0]} to {numbers[-1]} ({len(numbers)} patches)"


def _drift(drift: Drift) -> Iterator[str]:
    yield from (f"drift: {sentence}" for sentence in drift.summary)
    for patch in drift.patches:
        for file in patch.files:
            lines = file.diff.splitlines()
            yield from (f"    {line}".rstrip() for line in lines[:_SHOWN_LINES])
            if len(lines) > _SHOWN_LINES:
                yield f"    ... {len(lines) - _SHOWN_LINES} more lines (--json has all of them)"
