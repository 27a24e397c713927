"""Show the results of gates on a screen, and convert them to TSV, Markdown and JUnit XML for other tools."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from patchstack.evidence.origin import Origin
from patchstack.gates.judgement import Judgement
from patchstack.gates.kind import JudgementTable
from patchstack.report.streams import VERDICTS, paint_words, terminal
from patchstack.report.table import Give, Table, print_table
from patchstack.report.text import counted, printable
from patchstack.tasks import clock
from patchstack.verdict import Verdict, verdict_line

COLUMNS = ("phase", "check", "status", "actual", "expected", "details", "source")
_SHORT = 44
_ORDER = (Origin.RECALLED, Origin.RECORDED, Origin.OBSERVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A gate of a suite, and its result.

    `phase` is the name of the suite, and `check` is the name of the gate.
    """

    phase: str
    check: str
    kind: str
    judgement: Judgement


def gate_lines(kind: str, judgement: Judgement) -> Iterator[str]:
    """Yield the lines that describe the judgement of one gate."""
    yield paint_words(printable(f"{judgement.verdict}  {kind}: {judgement.reason}"), sys.stdout)
    if judgement.expected:
        yield printable(f"  expected  {judgement.expected}")
    if judgement.actual:
        yield printable(f"  actual    {judgement.actual}")
    lost = [one for one in judgement.attempts if one.complaint is not None]
    for one in lost:
        yield printable(f"  not judged: {one.what} (exit {one.code}, {one.seconds:.1f} s): {one.complaint}")
    if judgement.source is not None:
        yield f"  {judgement.source.words}"


def gate_line(name: str, judgement: Judgement, seconds: float) -> str:
    """Return the line for a finished gate of a suite. `seconds` is the wall time."""
    source = judgement.source
    told = f"  {source.words}" if source is not None else ""
    return f"{judgement.verdict:<7}  {name}  {clock(seconds)}{told}"


def source_counts(checks: Iterable[Checked]) -> dict[Origin, int]:
    """Return the number of judged gates for each origin of observations.

    Gates that could not be judged are not counted.
    """
    found = Counter(one.judgement.source.origin for one in checks if one.judgement.source is not None)
    return {origin: found[origin] for origin in Origin}


def closing_line(checks: Sequence[Checked], seconds: float | None = None) -> str:
    """Return the last line of a suite.

    The line contains the verdict, the number of gates and the origins of their observations. It also contains the wall
    time if `seconds` is given.
    """
    line = verdict_line(f"{checks[0].phase}: {counted(len(checks), 'gate')}", [one.judgement.verdict for one in checks])
    counts = source_counts(checks)
    told = [f"{counts[origin]} {origin}" for origin in _ORDER if counts[origin]]
    return "; ".join([line, ", ".join([*told, *([clock(seconds)] if seconds is not None else [])])]).rstrip("; ")


def print_checks(checks: Sequence[Checked], seconds: float | None = None) -> None:
    """Print the table of a suite, the reason of every gate that did not pass, and the overall verdict.

    `seconds` is the wall time.
    """
    shown = _short if terminal(sys.stdout) else str  # in a pipe, all cells are written in full
    rows = [
        [one.check, one.kind, str(one.judgement.verdict), shown(one.judgement.actual), shown(one.judgement.expected)]
        for one in checks
    ]
    titles = ("gate", "kind", "verdict", "actual", "expected")
    gives = {"actual": Give.FOLD, "expected": Give.FOLD}
    print_table(Table(titles=titles, rows=rows, styles=VERDICTS, gives=gives))
    for one in checks:
        if one.judgement.verdict is not Verdict.PASS:
            print(paint_words(printable(f"{one.judgement.verdict}  {one.check}: {one.judgement.reason}"), sys.stdout))
    if checks:
        print(paint_words(printable(closing_line(checks, seconds)), sys.stdout))


def print_judgement_table(table: JudgementTable) -> None:
    """Print the table of measurements in a gate's judgement."""
    gives = dict.fromkeys(table.titles[table.folding :], Give.WORDS)
    rows = [list(row) for row in table.rows]
    print_table(Table(titles=table.titles, rows=rows, styles=VERDICTS, gives=gives))


def tsv(checks: Iterable[Checked]) -> str:
    """Return the content of `gate_summary.tsv`.

    The first line contains the column names. Each gate has one line. Tabs and line breaks in values become spaces.
    """
    lines = ["\t".join(COLUMNS)]
    for one in checks:
        judgement = one.judgement
        where = (one.phase, one.check, str(judgement.verdict))
        cells = (*where, judgement.actual, judgement.expected, judgement.reason, _source_cell(judgement))
        lines.append("\t".join(" ".join(printable(cell).split()) for cell in cells))
    return "\n".join(lines) + "\n"


def markdown(checks: Iterable[Checked]) -> str:
    """Return the results as a Markdown table for a pull request."""
    lines = ["| gate | verdict | actual | expected | why | source |", "| --- | --- | --- | --- | --- | --- |"]
    for one in checks:
        judgement = one.judgement
        where = (one.check, str(judgement.verdict))
        cells = (*where, judgement.actual, judgement.expected, judgement.reason, _source_cell(judgement))
        lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def junit(checks: Sequence[Checked]) -> str:
    """Return the results as JUnit XML. FAIL becomes a failure, and INVALID an error."""
    suite = ElementTree.Element(
        "testsuite",
        name="patchstack gates",
        tests=str(len(checks)),
        failures=str(sum(one.judgement.verdict is Verdict.FAIL for one in checks)),
        errors=str(sum(one.judgement.verdict is Verdict.INVALID for one in checks)),
    )
    for one in checks:
        judgement = one.judgement
        seconds = sum(attempt.seconds for attempt in judgement.attempts)
        case = ElementTree.SubElement(
            suite, "testcase", classname=f"{one.phase}.{one.kind}", name=one.check, time=f"{seconds:.3f}"
        )
        if judgement.source is not None:
            properties = ElementTree.SubElement(case, "properties")
            ElementTree.SubElement(properties, "property", name="source", value=_source_cell(judgement))
        if judgement.verdict is not Verdict.PASS:
            kind = "failure" if judgement.verdict is Verdict.FAIL else "error"
            ElementTree.SubElement(case, kind, message=printable(judgement.reason)).text = printable(
                f"actual: {judgement.actual}\nexpected: {judgement.expected}"
            )
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _source_cell(judgement: Judgement) -> str:
    return judgement.source.words if judgement.source is not None else ""


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 1]}…"


def _cell(text: str) -> str:
    return " ".join(printable(text).split()).replace("|", "\\|")
