"""Determine from an exit code whether a run can be judged, and whether the build caused a failure."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

from patchstack.observe.protocol import Observation, Observed

_CRASHES = (signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV)
_NOT_STARTED = (126, 127)  # exit codes of a shell, env and the dynamic loader

_MEMORY = re.compile(r"out of memory|std::bad_alloc|(failed|unable) to allocate|cudaMalloc failed", re.IGNORECASE)
_LOADER = re.compile(r"error while loading shared libraries|symbol lookup error|version `[^']+' not found")
_USAGE = re.compile(r"error: (invalid|unknown) argument|error while handling argument", re.IGNORECASE)
_MODEL = re.compile(
    r"(failed to|error) load(ing)? model|corrupted or incomplete|invalid magic|failed to open GGUF", re.IGNORECASE
)
_CAUSES = (
    # The most informative patterns first: a failed assertion itself says more than "terminate called".
    re.compile(r"^\S+:\d+: .*\S"),
    re.compile(r"GGML_ASSERT|CUDA error|Assertion .* failed|terminate called|what\(\):"),
    re.compile(r"^(#\d+ |\[0x)|\(\+0x[0-9a-f]+\)"),
)
_COMPLAINT = re.compile(r"^\S+ E |\berror\b|\bfailed\b|\bcannot\b|\bunable\b", re.IGNORECASE)
_SILENT = "without an error message"
_STAMP = re.compile(r"^[\d.]+ [IWED] ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A failed run.

    `by_build` is true if the build caused the failure; otherwise the cause is unknown. `unexplained` is true if the
    program exited by itself without an error message.
    """

    by_build: bool
    reason: str
    unexplained: bool = False


def fault_of(seen: Observation, *, pinned: bool, stdout: bool = False) -> Fault | None:
    """Return why a run failed. Return None for exit code 0.

    A signal in the exit code takes precedence over all messages, except those about memory and a failed start.

    The build is at fault for a crash, and for an error with a message. The build is not at fault in these cases:

    - a signal from a different process;
    - lack of memory;
    - a program that cannot start, or does not accept its arguments.

    If a model cannot be loaded, the build is at fault only if the model is `pinned`. The digest of such a model was
    checked, so its file is intact.

    A failure without an error message is `unexplained`, because the message may have been lost (see `sentinel`). With
    `stdout`, messages on stdout count too. This is for tests only: the stdout of a model may contain any text.
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
        return Fault(by_build=False, reason=f"it does not accept its arguments: {line}")
    if line := _first(lines, _MODEL):
        return Fault(by_build=pinned, reason=f"it cannot load the model: {line}")
    if line := _first(lines, _COMPLAINT):
        return Fault(by_build=True, reason=f"it exited with {seen.code}: {line}")
    reason = f"it exited with {seen.code} {_SILENT}"
    return Fault(by_build=False, reason=reason, unexplained=True)


def refused_arguments(seen: Observation) -> str | None:
    """Return the line in which a program rejects its arguments, for example because of an unknown option.

    Returns None if the program does not reject its arguments.
    """
    if seen.code == 0 or seen.code > 128 or seen.code in _NOT_STARTED:
        return None
    return _first(_lines(seen.stderr), _USAGE)


def complaint_of(run: Observed) -> str:
    """Return why no try of a run could be judged.

    The last complaint that names a cause is returned. If no complaint names a cause, the last complaint is returned.
    """
    told = [attempt.complaint for attempt in run.attempts if attempt.complaint is not None]
    return next((one for one in reversed(told) if not one.endswith(_SILENT)), run.complaint)


def crashed(code: int) -> bool:
    """Return whether an exit code means a crash: a signal that the program caused itself."""
    return code - 128 in _CRASHES


def cause_of_crash(seen: Observation) -> str:
    """Return the most informative line of a crash.

    This is the failed assertion if one exists, otherwise the first frame of the backtrace, otherwise the last line. The
    backtrace may be on stdout.
    """
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
