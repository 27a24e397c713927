"""A log that was read, checked, and asked: what the commands print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

from patchstack.errors import MissingError
from patchstack.llama.traces.contradictions import RECORDS, Finding, findings
from patchstack.llama.traces.expectations import Answer, Expectation, answer
from patchstack.llama.traces.reading import Reading, Trace
from patchstack.trace.facts import Fact, facts
from patchstack.trace.figures import DECODE_TOKENS
from patchstack.trace.sources import Source, files_of, read_logs
from patchstack.trace.verdicts import usable, verdict_of_answer, verdict_of_finding
from patchstack.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """All that is known of a log. Calls for up to `decode_tokens` tokens are decode-like."""

    sources: tuple[Source, ...]
    reading: Reading
    findings: tuple[Finding, ...]
    facts: tuple[Fact, ...]
    answers: tuple[Answer, ...]
    decode_tokens: int

    @property
    def name(self) -> str:
        """The log in words: its name, or how many logs there are."""
        return self.sources[0].name if len(self.sources) == 1 else f"{len(self.sources)} logs"

    def contradicts(self, trace: Trace) -> bool:
        """Whether no count of a trace's records may be used."""
        return any(
            one.holds is False and RECORDS in one.spoils and one.trace in (trace.name, "log") for one in self.findings
        )

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """What reading comes to: of the expectations, if there are any; else INVALID if a figure may not be used."""
        if self.answers:
            return tuple(verdict_of_answer(one) for one in self.answers)
        return (Verdict.PASS if usable(self.findings) else Verdict.INVALID,)

    @property
    def verdict(self) -> Verdict:
        """The verdicts of reading as one."""
        return overall(self.verdicts)

    @property
    def checks_verdict(self) -> Verdict:
        """The verdicts of checking as one."""
        return overall(self.checked)

    @property
    def checked(self) -> tuple[Verdict, ...]:
        """What checking comes to: one verdict a check; none if there is nothing to check."""
        return tuple(verdict_of_finding(one) for one in self.findings)


def overall(verdicts: Sequence[Verdict]) -> Verdict:
    """Return one verdict for several: FAIL before INVALID before PASS, and INVALID for none."""
    order = (Verdict.FAIL, Verdict.INVALID, Verdict.PASS)
    return next((one for one in order if one in verdicts), Verdict.INVALID)


def read_two(first: str, second: str, stdin: IO[bytes]) -> tuple[Traced, Traced]:
    """Read two logs. Raises what `read_traced` raises, and `UsageError` for a log that is given twice."""
    files_of((first, second))
    return read_traced((first,), stdin), read_traced((second,), stdin)


def read_traced(
    paths: Sequence[str],
    stdin: IO[bytes],
    *,
    expectations: Sequence[Expectation] = (),
    decode_tokens: int = DECODE_TOKENS,
) -> Traced:
    """Read logs as one. Raises `MissingError` for a log that does not exist or holds nothing that is known, and
    `UsageError` for what is no log or an expectation that could mean several traces."""
    reading, sources = read_logs(paths, stdin)
    if reading.empty and not (reading.torn or reading.unended):
        names = ", ".join(one.name for one in sources[:3]) + (", …" if len(sources) > 3 else "")
        raise MissingError(
            f"{names}: {reading.lines:,} lines, and none is a record or a line of llama.cpp that is known",
            hint="traces go to standard error: run with a switch such as LLAMA_LAYOUT_TRACE=1000000, and 2> LOG",
        )
    found = findings(reading)
    return Traced(
        sources=sources,
        reading=reading,
        findings=found,
        facts=facts(reading, found),
        answers=tuple(answer(one, reading, found) for one in expectations),
        decode_tokens=decode_tokens,
    )
