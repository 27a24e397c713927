"""Interpret an exit code: the run can be judged, the build is at fault, or something else is."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

from patchstack.observe.protocol import Observation, Observed

_CRASHES = (signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV)
_NOT_STARTED = (126, 127)  # the exit codes of a shell, env and the dynamic loader

_MEMORY = re.compile(r"out of memory|std::bad_alloc|(failed|unable) to allocate|cudaMalloc failed", re.IGNORECASE)
_LOADER = re.compile(r"error while loading shared libraries|symbol lookup error|version `[^']+' not found")
_USAGE = re.compile(r"error: (invalid|unknown) argument|error while handling argument", re.IGNORECASE)
_MODEL = re.compile(
    r"(failed to|error) load(ing)? model|corrupted or incomplete|invalid magic|failed to open GGUF", re.IGNORECASE
)
_CAUSES = (
    # The most informative first: the failed assertion says more than the message that one failed.
    re.compile(r"^\S+:\d+: .*\S"),
    re.compile(r"GGML_ASSERT|CUDA error|Assertion .* failed|terminate called|what\(\):"),
    re.compile(r"^(#\d+ |\[0x)|\(\+0x[0-9a-f]+\)"),
)
_COMPLAINT = re.compile(r"^\S+ E |\berror\b|\bfailed\b|\bcannot\b|\bunable\b", re.IGNORECASE)
_SILENT = "and did not say why"
_STAMP = re.compile(r"^[\d.]+ [IWED] ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A run that failed. `by_build`: the build caused it; otherwise the cause is not known. `unexplained`: the program
    exited by itself without an error message."""

    by_build: bool
    reason: str
    unexplained: bool = False


def fault_of(seen: Observation, *, pinned: bool, stdout: bool = False) -> Fault | None:
    """Return what is wrong with the end of a run; None for exit code 0. It is judged before the output, because a crash
    leaves its backtrace on stdout.

    A crash is the build's fault, and so is an error with a message. These are not: a signal from elsewhere, lack of
    memory, a program that cannot start or does not know its arguments, and a model that cannot be loaded, unless the
    model is `pinned`: its digest was checked. The message of an error may have been lost (see `sentinel`), so an error
    without a message is not judged yet. With `stdout`, messages there count as well, as for a test; the transcript of a
    model may contain any text.
    """
    if seen.code == 0:
        return None
    lines = [*_lines(seen.stderr), *(_lines(seen.stdout) if stdout else ())]
    if line := _first(lines, _MEMORY):
        return Fault(by_build=False, reason=f"it ran out of memory: {line}")
    if seen.code in _NOT_STARTED or _first(lines, _LOADER):
        told = _first(lines, _LOADER) or _last(lines)
        return Fault(by_build=False, reason=f"it could not be started (exit code {seen.code}): {told}")
    if seen.code > 128:
        return _signalled(seen)
    if line := _first(lines, _USAGE):
        return Fault(by_build=False, reason=f"it does not take its arguments: {line}")
    if line := _first(lines, _MODEL):
        return Fault(by_build=pinned, reason=f"it cannot load the model: {line}")
    if line := _first(lines, _COMPLAINT):
        return Fault(by_build=True, reason=f"it exited with {seen.code}: {line}")
    reason = f"it exited with {seen.code} {_SILENT}"
    return Fault(by_build=False, reason=reason, unexplained=True)


def refused_arguments(seen: Observation) -> str | None:
    """Return the line with which a program rejects its arguments, such as an unknown switch; None if it does not."""
    if seen.code == 0 or seen.code > 128 or seen.code in _NOT_STARTED:
        return None
    return _first(_lines(seen.stderr), _USAGE)


def complaint_of(run: Observed) -> str:
    """Return why none of the tries of a run could be judged: the last complaint that names a cause."""
    told = [attempt.complaint for attempt in run.attempts if attempt.complaint is not None]
    return next((one for one in reversed(told) if not one.endswith(_SILENT)), run.complaint)


def crashed(code: int) -> bool:
    """Return whether an exit code means a crash: a signal that the program itself caused."""
    return code - 128 in _CRASHES


def cause_of_crash(seen: Observation) -> str:
    """Return the most informative line of a crash: the assertion, else the first frame, else the last line. A backtrace
    may be on stdout."""
    lines = [*_lines(seen.stderr), *_lines(seen.stdout)]
    return next((line for pattern in _CAUSES if (line := _first(lines, pattern))), None) or _last(lines)


def _signalled(seen: Observation) -> Fault:
    code = seen.code
    try:
        name = signal.Signals(code - 128).name
    except ValueError:
        name = f"signal {code - 128}"
    if crashed(code):
        return Fault(by_build=True, reason=f"it crashed with {name} (exit code {code}): {cause_of_crash(seen)}")
    return Fault(by_build=False, reason=f"it was ended by {name} (exit code {code})")


def _lines(stream: bytes) -> list[str]:
    return [line.strip() for line in stream.decode("utf-8", "backslashreplace").splitlines() if line.strip()]


def _first(lines: list[str], pattern: re.Pattern[str]) -> str | None:
    return next((_brief(line) for line in lines if pattern.search(line)), None)


def _last(lines: list[str]) -> str:
    return _brief(lines[-1]) if lines else "it printed nothing"


def _brief(line: str) -> str:
    return _STAMP.sub("", line)[:300]
