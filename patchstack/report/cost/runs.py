"""Read files of measured times for `cost compare`.

A file contains rows of llama-batched-bench, or a document that `patchstack bench` or `patchstack bench serve` printed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from patchstack.bench.kinds import batched, llama_bench
from patchstack.causes import CostRefused, CostUnknown, InputUnreadable
from patchstack.cost.compare import Measured, read_row
from patchstack.cost.server_options import ServerOptions, read_options
from patchstack.report.cost import serve_runs
from patchstack.report.documents.bench import BenchDocument

_HINT = "use rows of llama-batched-bench (--output-format jsonl), or the output of 'patchstack bench' with --json"
_OWN = frozenset(
    ["-npp", "-ntg", "-npl", "--output-format", "-fit", "-lv", "-p", "-n", "-r", "-o", "-d", "--n-depth", "-pg"]
)
"""Options that select what is measured, not how the model is run. Each of these options takes a value."""
_LINE = 64 << 20  # maximum length of a line, in bytes; a bench document with 1000 pairs has a few million bytes
_OWN_FLAGS = frozenset(("-pps", "--perf", "--progress"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """The measured times of a file, and the assumptions about them."""

    rows: tuple[Measured, ...]
    assumptions: tuple[str, ...] = ()


class _Head(msgspec.Struct):
    schema: str | None = None


def read_runs(path: Path, given: Sequence[str] = ()) -> Runs:
    """Read a file of measured times.

    `given` are options of the run that the file does not record.

    Raises `MissingError` if the file does not exist, or if it contains no row with a lower bound. Raises `UsageError`
    if a row or a document cannot be read. The error states the line.
    """
    rows: list[Measured] = []
    told: list[str] = []
    for number, line in _objects(path):
        place = f"{path}:{number}"
        schema = _schema(line)
        if schema is None:
            rows.append(read_row(line, place, source=f"{path.name}:{number}"))
        elif schema in _READERS:
            found = _READERS[schema](line, place, path.name, given)
            rows += found.rows
            told += found.assumptions
        else:
            raise CostRefused(f"{place}: a {schema} document has no times to compare", hint=_HINT)
    if not rows:
        raise CostUnknown(f"{path} contains no rows", hint=_HINT)
    return Runs(rows=tuple(rows), assumptions=tuple(dict.fromkeys(told)))


def _objects(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the JSON objects of a file, each with its line number.

    The file contains either one object that spans several lines, or several objects, one per line.
    """
    try:
        if path.exists() and not path.is_file():
            raise CostRefused(f"{path} is not a file", hint=_HINT)
        with path.open("rb") as file:
            first = file.readline(_LINE)
            if first.strip() == b"{":
                yield 1, first + file.read(_LINE)
                return
            number, line = 1, first
            while line:
                if line.startswith(b"{"):
                    yield number, line
                number, line = number + 1, file.readline(_LINE)
    except FileNotFoundError as error:
        raise CostUnknown(f"{path} does not exist", hint=_HINT) from error
    except OSError as error:
        raise InputUnreadable(f"{path} cannot be read: {error.strerror}") from error


def _schema(line: bytes) -> str | None:
    try:
        return msgspec.json.decode(line, type=_Head).schema
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None  # `read_row` reports this error later


def _bench(line: bytes, place: str, name: str, given: Sequence[str]) -> Runs:
    try:
        document = msgspec.json.decode(line, type=BenchDocument)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InputUnreadable(f"{place}: not a {BenchDocument.schema()} document: {error}") from error
    reader = _PROGRAMS.get(document.program)
    if reader is None:
        raise CostUnknown(
            f"{place}: the workload {document.workload!r} runs {document.program}, whose figures have no floor",
            hint="use a workload of llama-batched-bench or llama-bench",
        )
    options = replace(_options(document.args, given), draft_tokens=0, speculation=(), draft_model="")
    shapes = reader(document.args, place)
    rows = []
    for row in document.rows:
        shape = shapes.get(row.name)
        for side, speed in (("A", row.a), ("B", row.b)):
            if shape is not None and (row.unit, row.better) == ("t/s", "higher") and speed is not None:
                if not speed > 0:
                    raise CostRefused(f"{place}: the speed of {row.name} on side {side} is not above 0: {speed:g} t/s")
                rows.append(_timed(shape, f"{name} {side}", speed, options))
    if not rows:
        raise CostUnknown(
            f"{place}: the comparison has no row with a floor",
            hint=f"a floor needs a row in t/s and at least one counted pair (pairs counted: {document.counted})",
        )
    told = [f"Speeds of {name} are medians of {document.counted} pairs; a single run may be faster."]
    digest = next((sha256 for sha256 in document.models.values() if sha256), None)
    if digest is not None:
        told.append(f"{name} measured the model with sha256 {digest[:12]}. MODEL is assumed to be the same model.")
    if options.unknown:
        told.append(f"These options of {name} were not understood: {', '.join(options.unknown)}.")
    return Runs(rows=tuple(rows), assumptions=tuple(told))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """The workload of a row.

    If `generated` is 0, the row measures the prefill of all prompts. Otherwise it measures the decode steps after the
    prompts.
    """

    prompt: int
    generated: int
    streams: int
    before: int = 0
    shared: bool = False

    @property
    def tokens(self) -> int:
        if self.generated:
            return self.generated * self.streams
        return self.prompt * (1 if self.shared else self.streams)


def _timed(shape: _Shape, source: str, speed: float, options: ServerOptions) -> Measured:
    seconds = shape.tokens / speed
    return Measured(
        source=source,
        prompt=shape.prompt,
        generated=shape.generated,
        streams=shape.streams,
        prefill_seconds=None if shape.generated else seconds,
        decode_seconds=seconds if shape.generated else None,
        shared=shape.shared,
        before=shape.before,
        options=options,
    )


def _batched(args: Sequence[str], place: str) -> dict[str, _Shape]:
    """Return the shapes of a llama-batched-bench run, by row name."""
    lists = [_counts(args, one, place) for one in ("-npp", "-ntg", "-npl")]
    shapes = [(pp, tg, pl) for pp, tg, pl in itertools.product(*lists)]
    shared = "-pps" in args
    found = {}
    for pp, tg, pl in shapes:
        prefill, decode = batched.row_names((pp, tg, pl), shapes)
        found[prefill] = _Shape(prompt=pp, generated=0, streams=pl, shared=shared)
        found[decode] = _Shape(prompt=pp, generated=tg, streams=pl, shared=shared)
    return found


def _llama_bench(args: Sequence[str], place: str) -> dict[str, _Shape]:
    """Return the shapes of a llama-bench run, by test name.

    Each test has one sequence. The option `-d` sets the number of tokens in the context before the test.
    """
    depth = next((_counts(args, one, place)[0] for one in ("-d", "--n-depth") if one in args), 0)
    found = {f"pp{one}": _Shape(prompt=one, generated=0, streams=1, before=depth) for one in _counts(args, "-p", place)}
    for one in _counts(args, "-n", place):
        found[f"tg{one}"] = _Shape(prompt=0, generated=one, streams=1, before=depth)
    return found


def _counts(args: Sequence[str], option: str, place: str) -> tuple[int, ...]:
    """Return the numbers that the last occurrence of an option sets."""
    text = next((value for name, value in reversed(list(itertools.pairwise(args))) if name == option), "")
    try:
        found = tuple(int(one) for one in text.split(","))
    except ValueError as error:
        raise CostRefused(f"{place}: {option} {text[:40]!r} is not a list of whole numbers") from error
    if not all(0 <= one <= 1 << 20 for one in found) or len(found) > 1000:
        raise InputUnreadable(f"{place}: {option} {text[:40]!r} is out of range")
    return found


def _options(args: Sequence[str], given: Sequence[str]) -> ServerOptions:
    """Return the options of the run: first the given options, then the options in the document.

    Options that only select what is measured are omitted.
    """
    kept: list[str] = []
    words = iter(args)
    for word in words:
        if word in _OWN:
            next(words, None)
        elif word not in _OWN_FLAGS:
            kept.append(word)
    return read_options(["bench", *given, *kept])


def _serve(line: bytes, place: str, name: str, given: Sequence[str]) -> Runs:
    times = serve_runs.read_times(line, place)
    options = _options(times.server.args if times.server is not None else (), given)
    rows = tuple(serve_runs.measured_times(times, name, options))
    if not rows:
        raise CostUnknown(
            f"{place}: the run has no time with a floor", hint="use a server that reports the number of prompt tokens"
        )
    told = [f"{name}: the served model is assumed to be MODEL."]
    if times.cached:
        told.append(f"{name}: {times.cached:,} prompt tokens were cached, so its first tokens have no floor.")
    elif times.cached is None:
        told.append(f"{name}: the number of cached prompt tokens is unknown, so its first tokens have no floor.")
    return Runs(rows=rows, assumptions=tuple(told))


_PROGRAMS: Mapping[str, Callable[[Sequence[str], str], dict[str, _Shape]]] = {
    batched.PROGRAM: _batched,
    llama_bench.PROGRAM: _llama_bench,
}
_READERS: Mapping[str, Callable[[bytes, str, str, Sequence[str]], Runs]] = {
    BenchDocument.schema(): _bench,
    serve_runs.SCHEMA: _serve,
}
