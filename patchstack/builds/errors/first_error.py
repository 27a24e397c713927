"""Find the first real error in the log of a build.

The log is divided into the outputs of jobs. An error has a kind, and lines to show.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from patchstack.builds.errors.diagnostics import Diagnostic, Style, excerpt, first_diagnostic

_LINES = 100_000  # the maximum number of lines of one job; further lines are ignored
_WIDTH = 4_000  # the maximum number of characters of a line that is not a command
_ESCAPES = re.compile(r"\x1b\[[0-9;:]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_STEP = re.compile(r"\[\d+/\d+\] ")
_FAILED = re.compile(r"FAILED: (?:\[code=\d+\] )?(\S*)")
_NINJA = re.compile(r"ninja: ")
_MAKE = re.compile(r"g?make(?:\[\d+\])?: \*\*\* \[(?:.*:\d+: )?(.+)\] Error \d+")


@dataclass(slots=True, kw_only=True)
class JobOutput:
    """The output of a job.

    `target` is the job's first target, and `command` is the job's command line. `failed` is true if ninja reported that
    the job failed.
    """

    lines: list[str] = field(default_factory=list)
    target: str | None = None
    command: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildLog:
    """A parsed log.

    `failed` lists the jobs that ninja reported as failed, in order. `outside` contains the lines of CMake, make and
    ninja that belong to no job. `target` is the first target that make could not build.
    """

    failed: tuple[JobOutput, ...]
    outside: list[str]
    target: str | None


def read_log(log: Iterable[str]) -> BuildLog:
    """Parse a log.

    ninja prints the output of a job as one block, after `[k/n] what`. For a failed job, `FAILED:` and the command
    precede the output. For a job in the console pool, such as a new CMake run or a download, these lines follow the
    output.
    """
    failed: list[JobOutput] = []
    outside: list[str] = []
    target = None
    job: JobOutput | None = None
    command_next = False
    for raw in log:
        line = _ESCAPES.sub("", (raw if command_next else raw[:_WIDTH]).rstrip("\r\n"))
        if command_next and job is not None:
            job.command, command_next = line, False
        elif _STEP.match(line):
            job = JobOutput()
        elif match := _FAILED.match(line):
            if job is None or job.failed:
                job = JobOutput()
            job.target, job.failed, command_next = match[1] or None, True, True
            failed.append(job)
        elif job is None or _NINJA.match(line):
            job = None
            if match := _MAKE.match(line):
                target = target or match[1]
            if len(outside) < _LINES:
                outside.append(line)
        elif len(job.lines) < _LINES:
            job.lines.append(line)
    return BuildLog(failed=tuple(failed), outside=outside, target=target)


_SITES = 20
_TAIL = 20
_COMPILED = re.compile(r"(?:^| )-c (?:\"([^\"]+)\"|'([^']+)'|((?:\\.|[^\s\\])+))")
_OBJECT = re.compile(r"(?:^|[\s:(])((?:[\w.+-]+/)*)CMakeFiles/[^/\s]+\.dir/([^\s:()]+)\.o\b")
_FETCHES = re.compile(r"download|clone|fetch|populate|Build step for", re.IGNORECASE)
_MADE = re.compile(r"(?:^|/)(?:_deps|CMakeFiles|[^/]+-subbuild)/")  # directories of generated files, not of the source
_NOISE = re.compile(
    r"(?:g?make(?:\[\d+\])?|ninja): |compilation terminated\.|-- Configuring incomplete|See also \"|\s*\Z"
)


class FailureKind(StrEnum):
    """Why a build failed.

    REJECTED means that the source rejects its configuration, with a static assertion or `#error`. COMPILE, LINK and
    CONFIGURE mean that the source does not build. UNKNOWN means that the cause could not be determined. All other
    kinds are problems of the machine, not of the source.
    """

    COMPILE = "compile"
    REJECTED = "rejected"
    LINK = "link"
    CONFIGURE = "configure"
    OUT_OF_MEMORY = "out-of-memory"
    NO_SPACE = "no-space"
    NETWORK = "network"
    TOOLKIT_TOO_OLD = "toolkit-too-old"
    UNKNOWN = "unknown"


# Patterns of causes, for the messages of all tools. The first matching pattern counts.
_CAUSES = (
    (
        FailureKind.OUT_OF_MEMORY,
        re.compile(
            r"Killed signal terminated program|internal compiler error: Killed|unable to execute command: Killed"
            r"|(?:died due to|terminated with) signal 9\b|virtual memory exhausted|memory exhausted|std::bad_alloc"
            r"|(?<!\")\bout of memory\b|Cannot allocate memory|^Killed\Z"
        ),
    ),
    (FailureKind.NO_SPACE, re.compile(r"No space left on device|Disk quota exceeded")),
    (
        FailureKind.TOOLKIT_TOO_OLD,
        re.compile(
            r"Unsupported gpu architecture|is not defined for option 'gpu-(?:name|architecture)'"
            r"|unsupported (?:GNU|clang) version!|Unsupported \.version \d",
            re.IGNORECASE,
        ),
    ),
    (
        FailureKind.NETWORK,
        re.compile(
            r"Could(?:n't| not) resolve (?:host|proxy)|Failed to connect to|Could(?:n't| not) connect to server"
            r"|Temporary failure in name resolution|Name or service not known|Network is unreachable"
            r"|Failed to clone repository"
        ),
    ),
)
_LINKING = re.compile(
    r"undefined reference to|undefined symbol|multiple definition of|duplicate symbol|cannot find -l"
    r"|relocation truncated to fit|DSO missing from command line|final link failed|ld returned \d+ exit status"
    r"|linker command failed"
)
# In these cases, the machine or the user ended the build. The source is not the cause.
_STRANGE = re.compile(
    r"Permission denied|Read-only file system|Resource temporarily unavailable|Too many open files|Input/output error"
    r"|signal terminated program|died due to signal (?:2|15)\b"
)
_REJECTING = re.compile(r"static assertion failed|static_assert(?:ion)? failed|#error\b")
_TELLING = dict(_CAUSES)
_OF_THE_MACHINE = (FailureKind.OUT_OF_MEMORY, FailureKind.NO_SPACE, FailureKind.TOOLKIT_TOO_OLD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The first error of a build.

    `sites` are up to 20 places, innermost first: the error itself, then the places that instantiated, included or
    called it. A place outside the source has an absolute path.

    `file` and `line` are those of the first place that is inside the source. `file` is relative to the root of the
    source. If no place is inside the source, `line` is None, and `file` is the compiled file. In a linker error, `file`
    may be the source of the object. `file` is None if no file of the source is known.

    `block` contains the lines to show. `target` is the target that failed.
    """

    kind: FailureKind
    message: str
    file: str | None = None
    line: int | None = None
    sites: tuple[tuple[str, int], ...] = ()
    block: tuple[str, ...] = ()
    target: str | None = None


def find_failure(log: Iterable[str], *, source: str = "", build: str = "") -> Failure:
    """Return the first real error in the log of a failed build.

    `source` and `build` are the absolute paths of the source and of CMake's directory, as the compilers saw them.
    Warnings and the output of successful jobs are ignored. If the log contains no known error, the kind is UNKNOWN and
    the block contains the last lines.
    """
    read = read_log(log)
    places = _Places(source=source, build=build)
    for job in read.failed:
        found = first_diagnostic(job.lines)
        if found is not None:
            return _judge(found, job, read, places)
    found = first_diagnostic(read.outside)
    if found is not None:
        return _judge(found, JobOutput(lines=read.outside, target=read.target), read, places)
    return _unknown(read, places)


def _judge(found: Diagnostic, job: JobOutput, read: BuildLog, places: _Places) -> Failure:
    kind = _kind(found, job, places)
    message = found.message
    if found.style is Style.CMAKE and kind in _TELLING:
        # If CMake quotes the message of a tool, the tool's line is the most informative line.
        said = next((line.strip() for line in found.block if _TELLING[kind].search(line)), message)
        message = message if said.endswith(":") else said  # the message is on the next lines
    sites = found.sites
    if kind is FailureKind.NETWORK and job.lines is not read.outside:
        # A fetch runs and fails in a separate build. Afterwards, CMake prints the line of the source that
        # required the fetch.
        outer = first_diagnostic(read.outside, styles=(Style.CMAKE,))
        sites = outer.sites if outer is not None else sites
    resolved = tuple(dict.fromkeys((*places.resolve(file), line) for file, line in sites))[:_SITES]
    if kind in _OF_THE_MACHINE:
        resolved = ()
    own = next(((file, line) for file, inside, line in resolved if inside), None)
    file, line = own if own is not None else (_subject(found, job, places, kind), None)
    return Failure(
        kind=kind,
        message=message,
        file=file,
        line=line,
        sites=tuple((file, line) for file, _, line in resolved),
        block=found.block,
        target=job.target,
    )


def _kind(found: Diagnostic, job: JobOutput, places: _Places) -> FailureKind:
    text = "\n".join(found.block) if found.style is Style.CMAKE else job.lines[found.at]
    for kind, pattern in _CAUSES:
        if pattern.search(text):
            return kind
    if found.style is Style.CMAKE:
        before = job.lines[max(0, found.at - 12) : found.at]
        unreached = any(_TELLING[FailureKind.NETWORK].search(line) for line in before)
        return FailureKind.NETWORK if unreached and _FETCHES.search(text) else FailureKind.CONFIGURE
    if _STRANGE.search(text) or found.style is Style.ANY or found.message.startswith("ccache: "):
        return FailureKind.UNKNOWN
    if found.style is Style.GRAPH:
        return FailureKind.CONFIGURE
    if found.style is Style.LINKER or _LINKING.search(found.message):
        return FailureKind.LINK
    if _REJECTING.search(found.message) or found.directive:
        # An assertion in a system header means that the source is wrong, not that it rejects its configuration.
        inside = not found.sites or not places.source or places.resolve(found.sites[0][0])[1]
        return FailureKind.REJECTED if inside else FailureKind.COMPILE
    return FailureKind.COMPILE


def _subject(found: Diagnostic, job: JobOutput, places: _Places, kind: FailureKind) -> str | None:
    """Return the source file that the failed command compiled, or the source of the object in a linker error.

    Returns None if the file is unknown.
    """
    compiled = _compiled(job, places)
    if compiled is not None:
        return compiled
    if kind is FailureKind.LINK:
        # CMake names an object after its source, in a directory with the same relative path.
        for line in found.block:
            if (match := _OBJECT.search(line)) is not None and "__/" not in match[2]:
                file = match[1] + match[2]
                inside = not file.startswith("/") or places.resolve(file)[1]
                return places.resolve(file)[0] if inside else None
    return None


def _compiled(job: JobOutput, places: _Places) -> str | None:
    """Return the source file in the command line of a compiler. Return None if no file of the source is compiled."""
    match = _COMPILED.search(job.command)
    if match is None:
        return None
    file, inside = places.resolve(match[1] or match[2] or re.sub(r"\\(.)", r"\1", match[3]))
    return file if inside else None


def _unknown(read: BuildLog, places: _Places) -> Failure:
    job = next(iter(read.failed), JobOutput(lines=read.outside, target=read.target))
    telling = [line for line in job.lines if not _NOISE.match(line)]
    nothing = f"{job.target} failed and printed nothing" if job.target else "the build failed and printed no error"
    return Failure(
        kind=FailureKind.UNKNOWN,
        message=telling[-1].strip() if telling else nothing,
        file=_compiled(job, places),
        block=excerpt(telling[-_TAIL:]),
        target=job.target,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    source: str
    build: str

    def resolve(self, path: str) -> tuple[str, bool]:
        """Return a path relative to the root of the source, and whether the path is inside the source.

        An absolute path outside the source stays absolute. A path that begins with `../` is relative to CMake's
        directory. All other relative paths are relative to the root. In such paths, directories of generated files,
        such as `_deps`, are outside the source.
        """
        if path.startswith("../") and self.build:
            path = posixpath.join(self.build, path)
        path = posixpath.normpath(path)
        if not path.startswith("/"):
            return path, not path.startswith("../") and not _MADE.search(path)
        for root, inside in sorted(((self.source, True), (self.build, False)), key=lambda pair: -len(pair[0])):
            top = posixpath.normpath(root) if root else ""
            if top and path.startswith(top.rstrip("/") + "/"):
                return (path[len(top.rstrip("/")) + 1 :], True) if inside else (path, False)
        return path, False
