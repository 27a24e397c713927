"""Read logs from files, directories or standard input, check them, and return verdicts."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from patchstack.causes import BadPath, TraceRefused, TraceUnreadable
from patchstack.llama.traces.contradictions import RECORDS, LogCheck, findings
from patchstack.llama.traces.expectations import Answer, Expectation, answer
from patchstack.llama.traces.reader import Reader
from patchstack.llama.traces.reading import Reading, Trace
from patchstack.tasks import Task, task
from patchstack.trace.facts import Fact, facts
from patchstack.trace.figures import DECODE_TOKENS
from patchstack.verdict import Verdict

STDIN = "-"
BLOCK = 1 << 20
_COMPRESSED = {b"\x1f\x8b": "zcat", b"\x28\xb5\x2f\xfd": "zstdcat", b"\xfd7zXZ": "xzcat", b"BZh": "bzcat"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A log that was read. `size` is the number of bytes that were read.

    `changed` describes how the log changed while it was read. It is empty if the log did not change.
    """

    name: str
    size: int
    changed: str = ""


def read_logs(paths: Sequence[str], stdin: IO[bytes]) -> tuple[Reading, tuple[Source, ...]]:
    """Read several logs as one log.

    A file is read up to the size that it has when it is opened, because reading a growing file might not end.

    Raises `MissingError` if a log does not exist or cannot be read, or if a directory contains no files. Raises
    `UsageError` if a path cannot be a log (for example a device), or if a log is compressed or given twice.
    """
    reader = Reader()
    sources = []
    with task("read logs") as progress:
        for name in files_of(paths):
            sources.append(_read_stdin(reader, stdin) if name == STDIN else _read_file(reader, name, progress))
            reader.next_file()
    return reader.reading(), tuple(sources)


def files_of(paths: Sequence[str]) -> list[str]:
    """Return the files for the given paths.

    A directory is replaced by the regular files in it, at any depth. Hidden files, hidden directories and symbolic
    links are skipped.

    Raises `MissingError` if a directory contains no files or cannot be read, and `UsageError` if a file is given twice.
    """
    files: list[str] = []
    for path in paths:
        if path != STDIN and Path(path).is_dir():
            found = sorted(_below(path))
            if not found:
                raise TraceUnreadable(f"{path} contains no files", hint="name a directory that contains logs")
            files += found
        else:
            files.append(path)
    seen: dict[str, str] = {}
    for name in files:
        real = name if name == STDIN else os.path.realpath(name)
        if real in seen:
            raise BadPath(
                f"{name} is given twice", hint="name each log once, so that its records are not counted twice"
            )
        seen[real] = name
    return files


def _below(directory: str) -> list[str]:
    found = []
    for folder, folders, names in os.walk(directory, onerror=_refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = os.path.join(folder, name)
            if not name.startswith(".") and not os.path.islink(path) and stat.S_ISREG(os.stat(path).st_mode):
                found.append(path)
    return found


def _refuse(error: OSError) -> None:
    raise TraceUnreadable(f"{error.filename} cannot be read: {error.strerror}") from error


def _read_stdin(reader: Reader, stdin: IO[bytes]) -> Source:
    size = 0
    while block := stdin.read(BLOCK):
        reader.feed(block)
        size += len(block)
    return Source(name=STDIN, size=size)


def _read_file(reader: Reader, name: str, progress: Task) -> Source:
    try:
        file = Path(name).open("rb")  # noqa: SIM115  (closed below)
    except FileNotFoundError as error:
        raise TraceUnreadable(
            f"{name} does not exist", hint="name a log, a directory that contains logs, or - for standard input"
        ) from error
    except OSError as error:
        raise TraceUnreadable(f"{name} cannot be read: {error.strerror}") from error
    with file:
        about = os.fstat(file.fileno())
        if stat.S_ISFIFO(about.st_mode):
            return Source(name=name, size=_read_to(reader, file, None, progress, name))
        if not stat.S_ISREG(about.st_mode):
            raise BadPath(
                f"{name} is not a regular file",
                hint="name a log, a directory that contains logs, or - for standard input",
            )
        _refuse_compressed(name, file)
        size = _read_to(reader, file, about.st_size, progress, name)
        now = os.fstat(file.fileno()).st_size
    changed = ""
    if now > about.st_size:
        changed = f"the log grew while it was read: {now - about.st_size:,} new bytes are not counted"
    elif size < about.st_size:
        changed = f"the log shrank while it was read: {about.st_size - size:,} bytes are missing"
    return Source(name=name, size=size, changed=changed)


def _refuse_compressed(name: str, file: IO[bytes]) -> None:
    head = file.read(8)
    file.seek(0)
    for magic, program in _COMPRESSED.items():
        if head.startswith(magic):
            raise TraceRefused(f"{name} is compressed", hint=f"run '{program} {name} | patchstack trace read -'")


def _read_to(reader: Reader, file: IO[bytes], end: int | None, progress: Task, name: str) -> int:
    size = 0
    progress.doing = name
    while end is None or size < end:
        block = file.read(BLOCK if end is None else min(BLOCK, end - size))
        if not block:
            break
        reader.feed(block)
        size += len(block)
        if end is not None and end > BLOCK:
            progress.at(size // BLOCK, end // BLOCK, f"MB of {name}")
    return size


_OF = {True: Verdict.PASS, False: Verdict.FAIL, None: Verdict.INVALID}


def verdict_of_finding(finding: LogCheck) -> Verdict:
    """Return the verdict of a check.

    PASS means that the check holds. FAIL means that the log contradicts itself. INVALID means that the log does not
    contain enough information to decide.
    """
    return _OF[finding.holds]


def verdict_of_answer(answer: Answer) -> Verdict:
    """Return the verdict for the answer to an expectation.

    PASS means that the log shows what was expected. FAIL means that it shows the opposite. INVALID means that it shows
    neither.
    """
    return _OF[answer.holds]


def usable(findings: Sequence[LogCheck]) -> bool:
    """Return whether every figure of the log may be used. A contradiction in the log makes figures unusable."""
    return not any(one.holds is False for one in findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """A log with its figures, its checks, and the answers to expectations.

    A call with at most `decode_tokens` tokens counts as decode.
    """

    sources: tuple[Source, ...]
    reading: Reading
    findings: tuple[LogCheck, ...]
    facts: tuple[Fact, ...]
    answers: tuple[Answer, ...]
    decode_tokens: int

    @property
    def name(self) -> str:
        """The name of the log, or the number of logs if there are several."""
        return self.sources[0].name if len(self.sources) == 1 else f"{len(self.sources)} logs"

    def contradicts(self, trace: Trace) -> bool:
        """Return whether the counts of a trace's records must not be used."""
        return any(
            one.holds is False and RECORDS in one.spoils and one.trace in (trace.name, "log") for one in self.findings
        )

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts of `trace read`.

        If there are expectations, each has a verdict. Otherwise there is one verdict: PASS if all figures may be used,
        else INVALID.
        """
        if self.answers:
            return tuple(verdict_of_answer(one) for one in self.answers)
        return (Verdict.PASS if usable(self.findings) else Verdict.INVALID,)

    @property
    def verdict(self) -> Verdict:
        """The combined verdict of `trace read`."""
        return overall(self.verdicts)

    @property
    def checks_verdict(self) -> Verdict:
        """The combined verdict of `trace check`."""
        return overall(self.checked)

    @property
    def checked(self) -> tuple[Verdict, ...]:
        """The verdicts of `trace check`, one for each check. Empty if there is nothing to check."""
        return tuple(verdict_of_finding(one) for one in self.findings)


def overall(verdicts: Sequence[Verdict]) -> Verdict:
    """Combine several verdicts.

    FAIL has priority over INVALID, and INVALID over PASS. Return INVALID if there are no verdicts.
    """
    order = (Verdict.FAIL, Verdict.INVALID, Verdict.PASS)
    return next((one for one in order if one in verdicts), Verdict.INVALID)


def read_two(first: str, second: str, stdin: IO[bytes]) -> tuple[Traced, Traced]:
    """Read two logs. Raises the same errors as `read_traced`, and `UsageError` if the same log is given twice."""
    files_of((first, second))
    return read_traced((first,), stdin), read_traced((second,), stdin)


def read_traced(
    paths: Sequence[str],
    stdin: IO[bytes],
    *,
    expectations: Sequence[Expectation] = (),
    decode_tokens: int = DECODE_TOKENS,
) -> Traced:
    """Read several logs as one log.

    Raises the same errors as `read_logs`. It also raises `MissingError` if no line is recognized, and `UsageError` if
    an expectation matches several traces.
    """
    reading, sources = read_logs(paths, stdin)
    if reading.empty and not (reading.torn or reading.unended):
        names = ", ".join(one.name for one in sources[:3]) + (", …" if len(sources) > 3 else "")
        lines = f"{reading.lines:,} line{'' if reading.lines == 1 else 's'}"
        raise TraceUnreadable(
            f"no known record or llama.cpp line in {names} ({lines})",
            hint="set a switch such as LLAMA_LAYOUT_TRACE=1000000, and redirect standard error with '2> LOG'",
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
