"""Find the first error message in the output of a job, and the source lines that the message names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

_BLOCK = 40  # the maximum number of lines to show
_CONTEXT = 16  # the maximum number of shown lines that precede the error
_WIDTH = 2000  # the maximum number of characters of a line


class Style(StrEnum):
    """The format of an error message.

    - `GNU`: `file:line:column:`, from GCC and clang.
    - `EDG`: `file(line):`, from nvcc's front end.
    - `NVIDIA`: `ptxas error :`, from NVIDIA's other tools.
    - `DRIVER`, `LINKER`, `CMAKE`: messages of a compiler driver, a linker, or CMake.
    - `GRAPH`: messages of ninja, make or a shell.
    - `ANY`: messages of any program.
    """

    GNU = "gnu"
    EDG = "edg"
    NVIDIA = "nvidia"
    DRIVER = "driver"
    LINKER = "linker"
    CMAKE = "cmake"
    GRAPH = "graph"
    ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """An error message.

    `at` is the index of the message's first line in the output of the job. `sites` are the places that the message
    names, as the tool wrote them, innermost first. `block` contains the lines to show. `directive` is true for an
    `#error`. In clang's output, only the quoted source line shows that an error is an `#error`.
    """

    style: Style
    at: int
    message: str
    sites: tuple[tuple[str, int], ...]
    block: tuple[str, ...]
    directive: bool = False


_SEVERE = r"(?:fatal error|error|internal compiler error|sorry, unimplemented|Error|Fatal error)"
_GNU = re.compile(rf"([^\s:(\[][^:]*):(\d+)(?::\d+)?: {_SEVERE}: (.+)\Z")
_COMMAND_LINE = re.compile(rf"<(?:command-line|built-in)>(?::\d+)?(?::\d+)?: {_SEVERE}: (.+)\Z")
_EXPANDED = re.compile(r"([^\s:(\[<][^:]*):(\d+)(?::\d+)?: note: in expansion of macro")
_EDG = re.compile(r"(\S.*?)\((\d+)\): (?:catastrophic |internal )?error(?: #[\w-]+)?: (.+)\Z")
_EDG_END = re.compile(r"At end of source: (?:catastrophic |internal )?error(?: #[\w-]+)?: (.+)\Z")
_NVIDIA = re.compile(
    r"(ptxas|nvlink|nvcc|fatbinary|cudafe\+\+|cicc)(?: ([^,]+), line (\d+);)? *(?:error|fatal) *: *(.+)\Z"
)
_LINKER = re.compile(
    r"(?=.*(?:undefined reference to|undefined symbol: |multiple definition of|duplicate symbol: |cannot find -l"
    r"|relocation truncated to fit|DSO missing from command line|final link failed))"
    r"(?!.*\bwarning: )(?:([^\s:(][^:(]*):(\d+): |\S.*?: )?(?:error: )?(.+)\Z"
)
_PHRASE = re.compile(
    r"(?:undefined reference to|undefined symbol: |multiple definition of|duplicate symbol: |cannot find -l"
    r"|relocation truncated to fit|DSO missing|final link failed).*"
)
_DRIVER = re.compile(
    r"(?:\S*/)?(?:cc1(?:plus)?|collect2|as|ld(?:\.\w+)?|mold|lto1|lto-wrapper|ccache|ar|ranlib"
    r"|(?:[\w.]+-)*(?:g\+\+|gcc|c\+\+|cc|clang(?:\+\+)?)(?:-\d+)?): "
    rf"{_SEVERE}: (.+)\Z"
)
_CMAKE = re.compile(r"CMake Error(?: at (.+?):(\d+)(?::\S+?)? \(.*\)| in (\S+))?: ?(.*)\Z")
_CMAKE_CALL = re.compile(r"  (\S.*?):(\d+)(?::\S+)? \(.*\)\Z")
_NINJA = re.compile(r"ninja: (?:error|fatal): (.+)\Z")
_MAKE = re.compile(r"g?make(?:\[\d+\])?: \*\*\* (No rule to make target .+)\Z")
_SHELL = re.compile(r"(?:/bin/)?(?:ba|da)?sh: (?:line )?(?:\d+: )?(.+: (?:command )?not found)\Z")
_ANY = re.compile(
    r"(?:Killed\Z|.*(?:No space left on device|Disk quota exceeded|virtual memory exhausted|Cannot allocate memory"
    r"|: out of memory allocating|std::bad_alloc"
    r"|Could(?:n't| not) resolve host|Failed to connect to|Could(?:n't| not) connect to server"
    r"|Temporary failure in name resolution|Network is unreachable))"
)
_NOT_ANY = re.compile(r"\s*\d* \||.*\b(?:warning|note): |-- |\s*//")

_QUOTED = re.compile(r"\s*\d* \|")
_INCLUDED = re.compile(r"(?:In file included from|\s+from) ([^:]+):(\d+)(?::\d+)?[,:]")
_REQUIRED = re.compile(r"([^\s:][^:]*):(\d+)(?::\d+)?:\s+(?:recursively )?required (?:from|by) ")
_REQUESTED = re.compile(r"([^\s:][^:]*):(\d+):\d+: note: .*\brequested here")
_CONTEXT_LINE = re.compile(
    r"In file included from |\s+from .*:\d+(?::\d+)?[,:]\Z|\S.*: (?:In |At global scope|in )"
    r"|.*: +(?:recursively )?required |.*Assembler messages:\Z"
)
_NEXT = re.compile(
    rf"In file included from |\S.*: (?:In |At global scope)|\S+:\d+(?::\d+)?: (?:{_SEVERE}|warning): "
    r"|compilation terminated|\d+ errors? |g?make(?:\[\d+\])?: |ninja: |\[ *\d+(?:%|/\d+)\] "
)
_AT_LINE = re.compile(r'.* at line (\d+)(?: of "?(.+?)"?)?\Z')
_ERROR_DIRECTIVE = re.compile(r"\s*\d+ \|\s*#\s*error\b")


def first_diagnostic(lines: Sequence[str], *, styles: Iterable[Style] = tuple(Style)) -> Diagnostic | None:
    """Return the first error with one of the `styles`, or None if the lines contain none.

    An error that CMake itself reported has priority. Errors of other tools before it did not stop CMake.
    """
    wanted = set(styles)
    if Style.CMAKE in wanted:
        for at, line in enumerate(lines):
            if line.startswith("CMake Error") and (match := _CMAKE.match(line)):
                return _cmake(lines, at, match)
    for at, line in enumerate(lines):
        if len(line) > 5 and not line.startswith(" "):
            for style, read in _READERS:
                found = read(lines, at) if style in wanted else None
                if found is not None:
                    return found
    return None


def excerpt(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the lines to show. Their number and length are limited."""
    kept = [line if len(line) <= _WIDTH else line[: _WIDTH - 3] + "..." for line in lines]
    return tuple(kept[:_BLOCK])


def _gnu(lines: Sequence[str], at: int) -> Diagnostic | None:
    match = _GNU.match(lines[at])
    given = _COMMAND_LINE.match(lines[at]) if match is None else None
    if match is None and given is None:
        return None
    start = _context_start(lines, at)
    before, after = lines[start:at], _after(lines, at)
    sites = [(match[1], int(match[2]))] if match is not None else []
    if given is not None:  # the macro comes from the command line: show where it is used
        sites += [(m[1], int(m[2])) for line in after if (m := _EXPANDED.match(line))]
    for pattern, told in ((_REQUIRED, before), (_REQUESTED, after), (_INCLUDED, before)):
        sites += [(m[1], int(m[2])) for line in told if (m := pattern.match(line))]
    return Diagnostic(
        style=Style.GNU,
        at=at,
        message=(match[3] if match is not None else given[1] if given is not None else "").strip(),
        sites=tuple(sites),
        block=excerpt([*before[-_CONTEXT:], lines[at], *after]),
        directive=any(_ERROR_DIRECTIVE.match(line) for line in after[:2]),
    )


def _context_start(lines: Sequence[str], at: int) -> int:
    """Return the index of the first line that belongs to an error.

    Before the error, a compiler prints lines about includes and instantiations, with the quoted source.
    """
    start = begin = at
    while begin > 0 and (_CONTEXT_LINE.match(lines[begin - 1]) or _QUOTED.match(lines[begin - 1])):
        begin -= 1
        if not _QUOTED.match(lines[begin]):
            start = begin
    return start


def _after(lines: Sequence[str], at: int) -> list[str]:
    """Return the quoted lines and notes after an error, up to the next message."""
    told: list[str] = []
    for line in lines[at + 1 : at + 1 + _BLOCK]:
        if _NEXT.match(line) or not line.strip():
            break
        told.append(line)
    return told


def _edg(lines: Sequence[str], at: int) -> Diagnostic | None:
    match = _EDG.match(lines[at])
    if match is None:
        end = _EDG_END.match(lines[at])
        return None if end is None else _plain(Style.EDG, lines, at, end[1])
    after = _after(lines, at)
    sites = [(match[1], int(match[2]))]
    # EDG names the file of a place only if it differs from the file of the error.
    sites += [(m[2] or match[1], int(m[1])) for line in after if (m := _AT_LINE.match(line))]
    return Diagnostic(
        style=Style.EDG,
        at=at,
        message=match[3].strip(),
        sites=tuple(sites),
        block=excerpt([lines[at], *after]),
    )


def _nvidia(lines: Sequence[str], at: int) -> Diagnostic | None:
    match = _NVIDIA.match(lines[at])
    if match is None:
        return None
    block = [line for line in lines[at : at + _BLOCK] if _NVIDIA.match(line)]
    if match[1] == "nvlink":
        return _plain(Style.LINKER, lines, at, match[4], block)
    return _plain(Style.NVIDIA, lines, at, f"{match[1]}: {match[4]}", block)


def _driver(lines: Sequence[str], at: int) -> Diagnostic | None:
    match = _DRIVER.match(lines[at])
    if match is None:
        return None
    message = lines[at] if match[0].startswith("ccache: ") else match[1]
    return _plain(Style.DRIVER, lines, at, message)


def _linker(lines: Sequence[str], at: int) -> Diagnostic | None:
    match = _LINKER.match(lines[at])
    phrase = _PHRASE.search(lines[at]) if match is not None else None
    if match is None or phrase is None:
        return None
    start = at - 1 if at > 0 and re.search(r"in function [`']", lines[at - 1]) else at
    block = [*lines[start : at + 1]]
    for line in lines[at + 1 : at + _BLOCK]:
        block.append(line)
        if "collect2: " in line or "linker command failed" in line:
            break
    sites = ((match[1], int(match[2])),) if match[1] else ()
    return Diagnostic(style=Style.LINKER, at=at, message=phrase[0].strip(), sites=sites, block=excerpt(block))


def _cmake(lines: Sequence[str], at: int, match: re.Match[str]) -> Diagnostic:
    block = [lines[at]]
    calling = False
    sites = [(match[1], int(match[2]))] if match[1] else []
    for line in lines[at + 1 :]:
        if line.startswith("Call Stack "):
            calling = True
        elif (calling and not line.strip()) or (line.strip() and not line.startswith("  ")):
            break
        elif calling and (call := _CMAKE_CALL.match(line)):
            sites.append((call[1], int(call[2])))
        block.append(line)
    while len(block) > 1 and not block[-1].strip():
        block.pop()
    told = [line.strip() for line in block[1:] if not line.startswith("Call Stack ") and not _CMAKE_CALL.match(line)]
    message = " ".join(filter(None, [match[4], *told])) or "CMake failed"
    short = message if len(message) <= 400 else message[:397] + "..."
    return Diagnostic(style=Style.CMAKE, at=at, message=short, sites=tuple(sites), block=excerpt(block))


def _graph(lines: Sequence[str], at: int) -> Diagnostic | None:
    match = _NINJA.match(lines[at]) or _MAKE.match(lines[at]) or _SHELL.match(lines[at])
    return None if match is None else _plain(Style.GRAPH, lines, at, match[1], [lines[at]])


def _any(lines: Sequence[str], at: int) -> Diagnostic | None:
    if not _ANY.match(lines[at]) or _NOT_ANY.match(lines[at]):
        return None
    return _plain(Style.ANY, lines, at, lines[at])


def _plain(style: Style, lines: Sequence[str], at: int, message: str, block: Sequence[str] = ()) -> Diagnostic:
    """Return the diagnostic for an error message that names no file or line."""
    shown = block or [lines[at], *_after(lines, at)]
    return Diagnostic(style=style, at=at, message=message.strip(), sites=(), block=excerpt(shown))


_READERS: tuple[tuple[Style, Callable[[Sequence[str], int], Diagnostic | None]], ...] = (
    (Style.EDG, _edg),
    (Style.NVIDIA, _nvidia),
    (Style.LINKER, _linker),
    (Style.DRIVER, _driver),
    (Style.GNU, _gnu),
    (Style.GRAPH, _graph),
    (Style.ANY, _any),
)
