"""Show `patchstack build` on a screen: the resolved options, the progress, and the result."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Collection, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from patchstack.builds.record.record import BuildDocument, Rejection
from patchstack.builds.run.progress import Progress, ProgressReader, Pulse
from patchstack.report.streams import VERDICTS, coloured, paint_words, printing, quiet
from patchstack.report.table import Give, Table, print_table
from patchstack.report.text import counted, printable
from patchstack.tasks import clock
from patchstack.verdict import Verdict, verdict_line

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from patchstack.builds.record.store import Stored
    from patchstack.builds.run.build import Inputs

_PHASES = {
    "send": "sending the tree",
    "configure": "configuring",
    "compile": "compiling",
    "fetch": "fetching the binaries",
    "prove": "proving",
    "run": "running the command",
}


def options_lines(inputs: Inputs) -> Iterator[str]:
    """Yield every resolved option with its origin, the build key, and notes for the user."""
    source, plan, toolchain = inputs.source, inputs.plan, inputs.toolchain
    yield f"{source.label}: tree {source.tree[:12]}" + (f", {source.verdict}" if source.steps else "")
    rows = [
        ("variant", plan.variant, plan.why),
        ("engine", f"{plan.engine.kind} {plan.engine.version} at {plan.engine.endpoint}", plan.engine.spec),
        ("platform", plan.platform.value, plan.platform.origin),
    ]
    if plan.arch is not None and plan.arch_setting is not None:
        rows.append(("arch", plan.arch.cmake, plan.arch_setting.origin))
    if plan.image is not None:
        digest = (toolchain.image_digest or "").removeprefix("sha256:")[:12]
        rows.append(("image", f"{plan.image.value} ({digest})", plan.image.origin))
    if plan.toolkit is not None and plan.cuda:
        rows.append(("toolkit", plan.toolkit.value, plan.toolkit.origin))
    rows += [(tool, version, "") for tool, version in toolchain.versions.items() if tool in ("c++", "nvcc", "cmake")]
    rows.append(("targets", " ".join(plan.targets.value), plan.targets.origin))
    if plan.optional_targets is not None:
        rows.append(("optional", " ".join(plan.optional_targets.value), plan.optional_targets.origin))
    for name, settings in (("define", plan.cmake), ("compile", plan.compile)):
        rows += [(name, f"{key}={one.value}", one.origin) for key, one in sorted(settings.items())]
    rows += [
        ("jobs", str(plan.jobs.value), plan.jobs.origin),
        ("memory", _amount(plan.memory.value), plan.memory.origin),
        *([("cpus", f"{plan.cpus.value:g}", plan.cpus.origin)] if plan.cpus.value is not None else []),
        ("time", clock(plan.seconds.value), plan.seconds.origin),
        *([] if plan.ccache.value else [("ccache", "off", plan.ccache.origin)]),
    ]
    width = min(60, max(len(value) for _, value, _ in rows))
    last = ""
    for name, value, origin in rows:
        yield f"  {name if name != last else '':<9} {value:<{width}}  {origin}".rstrip()
        last = name
    yield f"key {inputs.key.hex}"
    for note in (*source.notes, *plan.notes):
        yield f"note: {note}"
    if not plan.engine.isolated:
        yield "note: the host engine does not isolate the build: it runs with your rights and your network"


class BuildScreen:
    """Shows the progress of a build on standard error.

    On a terminal, it shows a bar and an estimate of the remaining time. Otherwise it prints plain lines.
    """

    def __init__(self) -> None:
        self._reader = ProgressReader()
        self._pulse = Pulse()
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._start = time.monotonic()
        self._own = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._own.enter_context(printing())  # because the bar and the shell use the terminal
        if sys.stderr.isatty() and not quiet():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as RichProgress

            columns = (
                TextColumn("{task.description}"),
                BarColumn(bar_width=20),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.fields[left]}"),
            )
            self._bar = RichProgress(
                *columns, console=Console(stderr=True, no_color=not coloured(sys.stderr)), transient=True
            )
            self._bar.start()
            self._task = self._bar.add_task("", total=None, left="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        self._own.close()

    def close(self) -> None:
        """Remove the bar from the terminal."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def phase(self, name: str) -> None:
        """Show the start of a phase, and reset the progress."""
        text = _PHASES.get(name, name)
        self._reader = ProgressReader()
        self._pulse = Pulse()
        self._start = time.monotonic()
        if self._bar is not None and self._task is not None:
            self._bar.reset(self._task, description=text, total=None, left="")  # `reset` restarts the elapsed time
        elif not quiet():
            print(text, file=sys.stderr, flush=True)

    def output(self, chunk: bytes) -> None:
        """Read command output, and show the progress that it reports. Other output is not shown."""
        elapsed = time.monotonic() - self._start
        for progress in self._reader.feed(chunk, elapsed):
            left = f"about {clock(progress.remaining)} left" if progress.remaining else ""
            if self._bar is not None and self._task is not None:
                self._bar.update(self._task, total=progress.total, completed=progress.done, left=left)
            elif not quiet() and self._pulse.due(progress, elapsed):
                print(_plain(progress, left), file=sys.stderr, flush=True)

    def talk(self, text: str) -> None:
        """Print a message for the user."""
        if self._bar is not None:
            self._bar.console.print(printable(text), markup=False, highlight=False)
        elif not quiet():
            print(printable(text), file=sys.stderr, flush=True)


def print_build(found: BuildDocument, unproven: Collection[str] = ()) -> None:
    """Print a build on stdout. `unproven` lists the proofs that may be INVALID."""
    print(printable(_headline(found)))
    if not found.built:
        for line in rejection_lines(found.rejection) if found.rejection is not None else ():
            print(printable(line))
        print(f"log: {found.log}")
        return
    print()
    names = [[one.name, _size(one.size), one.sha256] for one in found.binaries]
    print_table(Table(titles=("binary", "size", "sha256"), rows=names, styles={}, gives={"sha256": Give.FOLD}))
    print()
    proofs = [[one.id, str(one.verdict), one.detail] for one in found.proofs]
    print_table(Table(titles=("proof", "verdict", "detail"), rows=proofs, styles=VERDICTS, gives={"detail": Give.FOLD}))
    print(f"\nbinaries: {found.out_dir}/bin\nprovenance: {found.out_dir}/provenance.json")
    verdicts = [one.verdict for one in found.proofs]
    excused = [
        Verdict.PASS if one.verdict is Verdict.INVALID and one.id in unproven else one.verdict for one in found.proofs
    ]
    what = f"{found.source.label} for {found.variant}: {counted(len(verdicts), 'proof')}"
    print(paint_words(printable(verdict_line(what, verdicts, excused)), sys.stdout))


def rejection_lines(rejection: Rejection) -> Iterator[str]:
    """Yield why a source does not compile, and which patch or commit added the failing line."""
    place = f"{rejection.file}:{rejection.line}" if rejection.line else rejection.file
    yield f"  {place}: {rejection.message}" if place else f"  {rejection.message}"
    yield f"  {rejection.origin}"
    yield ""
    for line in rejection.block:
        yield f"    {line}"
    yield ""


def print_builds(builds: Iterable[Stored], *, json: bool) -> None:
    """Print the stored builds for `--list`, as a table or as one JSON document per line."""
    builds = tuple(builds)
    if json:
        for stored in builds:
            print(stored.document(hit=True).line)
        return
    if not builds:
        print("no builds yet", file=sys.stderr)
        return
    rows = [[*_row(stored.document(hit=True)), _size(stored.bytes)] for stored in builds]
    titles = ("key", "what", "variant", "platform", "proofs", "finished", "size")
    gives = {"what": Give.FOLD, "proofs": Give.WORDS, "finished": Give.WORDS, "size": Give.WORDS}
    print_table(Table(titles=titles, rows=rows, styles={}, gives=gives))


def _row(record: BuildDocument) -> list[str]:
    return [
        str(record.key)[:12],
        str(record.source.label),
        str(record.variant),
        str(record.platform),
        _verdicts(record),
        str(record.finished)[:16].replace("T", " "),
    ]


def _verdicts(record: BuildDocument) -> str:
    if not record.built:
        return "rejected"
    counts: dict[str, int] = {}
    for proof in record.proofs:
        counts[proof.verdict] = counts.get(proof.verdict, 0) + 1
    return ", ".join(f"{counts[name]} {name}" for name in ("PASS", "FAIL", "INVALID") if name in counts)


def _headline(found: BuildDocument) -> str:
    key, what = found.key[:12], found.source.label
    if not found.built:
        return f"{what} does not build for {found.variant}" + (" (known from before)" if found.hit else "")
    if found.hit:
        return f"{what} for {found.variant}: build {key} already exists, nothing was compiled"
    text = f"{what} for {found.variant}: build {key} took {clock(found.wall_s)}"
    rate = found.ccache
    if rate is not None and rate.hits + rate.misses:
        total = rate.hits + rate.misses
        text += f"; ccache had {rate.hits} of {counted(total, 'file')} ({100 * rate.hits / total:.0f}%)"
    return text


def _plain(progress: Progress, left: str) -> str:
    share = f"{100 * progress.done // progress.total}%" if progress.total else ""
    return "  ".join(filter(None, (f"[{progress.done}/{progress.total}]", share, left)))


def _amount(memory: int | None) -> str:
    if memory is None:
        return "unlimited"
    return f"{memory / (1 << 30):.1f} GiB" if memory >= 1 << 30 else f"{memory / (1 << 20):.0f} MiB"


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
