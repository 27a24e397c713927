"""Gates on a screen: a pipe gets complete cells, a terminal gets their beginnings."""

from __future__ import annotations

import io

import pytest

from patchstack.evidence.origin import Origin, Source
from patchstack.gates.judgement import Judgement
from patchstack.observe.protocol import Attempt
from patchstack.report.gate import Checked, gate_line, print_checks
from patchstack.verdict import Verdict

LONG = "plain=" + "0123456789abcdef" * 4 + " paged=" + "fedcba9876543210" * 4


def attempt(*, recalled: bool) -> Attempt:
    source = Source(origin=Origin.RECALLED, made="2026-11-20T08:15:30+00:00") if recalled else Source()
    return Attempt(what="plain", key="k", code=0, seconds=41.0, complaint=None, source=source)


def checked(actual: str, expected: str) -> Checked:
    judgement = Judgement(verdict=Verdict.FAIL, reason="the transcript differs", actual=actual, expected=expected)
    return Checked(phase="quick", check="greedy", kind="completion", judgement=judgement)


def test_a_pipe_gets_every_cell_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    print_checks([checked(LONG, f"{LONG} more"), checked("short", "b\nc")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == f"greedy  completion  FAIL     {LONG}  {LONG} more"
    assert lines[2].split()[3:] == ["short", "b", "c"]
    assert "…" not in "".join(lines)


def test_a_terminal_gets_the_start_of_what_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    stream = Terminal()
    monkeypatch.setattr("sys.stdout", stream)
    print_checks([checked(LONG, "short")])
    told = stream.getvalue()
    assert LONG[:43] + "…" in told
    assert LONG[:44] not in told


@pytest.mark.parametrize(
    ("attempts", "line"),
    [
        ((attempt(recalled=False),), "PASS     greedy  12 s  observed now"),
        ((attempt(recalled=True), attempt(recalled=False)), "PASS     greedy  12 s  observed now"),
        (
            (attempt(recalled=True), attempt(recalled=True)),
            "PASS     greedy  12 s  recalled from this machine's cache (2026-11-20 08:15)",
        ),
        ((), "PASS     greedy  12 s"),
    ],
)
def test_a_gate_that_ends_says_its_time_and_whether_it_was_run(attempts: tuple[Attempt, ...], line: str) -> None:
    assert gate_line("greedy", Judgement(verdict=Verdict.PASS, reason="", attempts=attempts), 12.3) == line
