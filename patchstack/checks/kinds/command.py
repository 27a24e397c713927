"""Kind `command`: a program that judges files of the tree.

    - name: no-raw-placement
      patch: 13
      kind: command
      run: [ast-grep, scan, --rule, ci/placement.yml]
      files: ["src/llama-kv-cache*.cpp"]
      with: ["ci/placement.yml", "src/**/*.h"]
      image: tools:1
      time: 60s

The program runs on the engine, without a shell and without network access. Its working directory contains only the
files that `files` and `with` select, at their paths in the tree. Its last arguments are the paths of the files that
`files` selects. The result must depend only on the selected files, because files with equal contents are not judged
again. Exit status 0 means PASS, 1 means FAIL, and any other exit status means INVALID.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass

from patchstack.causes import SettingsRefused
from patchstack.checks.cage import Cage
from patchstack.checks.kind import Kind, View
from patchstack.checks.model import Found, TreeFile
from patchstack.engine.archive import Entry, pack
from patchstack.engine.protocol import Ending, Engine, Job, Limits, Outcome, Volume
from patchstack.errors import MissingError, PatchstackError, UsageError
from patchstack.verdict import Verdict
from patchstack.workspace.node import Node

_MOST = 16 << 20  # the maximum output of a program, in bytes
_SHOWN, _WIDTH = 20, 300  # the maximum number of output lines in a result, and the maximum length of a line
_MEMORY = 4 << 30
_NOT_FOUND = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSettings:
    """The settings of a command.

    `run` is the program with its arguments. `besides` are globs of additional files that the program needs. `image` is
    the container image in which the program runs.
    """

    run: tuple[str, ...]
    besides: tuple[str, ...]
    image: str | None


class _TooMuch(Exception):
    """The program printed more than the limit."""


def read(node: Node) -> CommandSettings | None:
    """Return the settings of an entry, or None if `run` is invalid. Problems are reported on the node."""
    words = node.texts("run") if node.has("run", required=True) else ()
    besides, image = node.texts("with") or (), node.text("image")
    if not words or not words[0]:
        node.complain("run" if "run" in node.node else None, "run must be a list of words that begins with the program")
        return None
    return CommandSettings(run=words, besides=besides, image=image)


def judge(settings: CommandSettings, view: View) -> Found:
    """Run the program, and judge by its exit status. The verdict is INVALID if the program cannot run."""
    printed = bytearray()

    def output(block: bytes) -> None:
        printed.extend(block)
        if len(printed) > _MOST:
            raise _TooMuch

    try:
        engine = view.engine()
        outcome = _carried_out(settings, view, engine, output)
    except _TooMuch:
        return Found(
            verdict=Verdict.INVALID,
            reason=f"it printed over {_MOST >> 20} MiB and was stopped",
            output=_first(bytes(printed[: _WIDTH * _SHOWN])),
        )
    except (MissingError, UsageError) as error:
        return Found(verdict=Verdict.INVALID, reason=_cause(error))
    return _judged(settings, view, outcome, bytes(printed), isolated=engine.about().isolated)


def _carried_out(settings: CommandSettings, view: View, engine: Engine, output: object) -> Outcome:
    about = engine.about()
    if about.isolated and settings.image is None:
        raise SettingsRefused(f"it has no image, but engine {about.spec} needs one")
    volume = Volume(name=f"patchstack-check-{secrets.token_hex(8)}", target="/tree")
    image = settings.image if about.isolated else None
    try:
        engine.put(volume.name, pack(_entries(view)), image=image)
        place = engine.place(volume)
        words = (*settings.run, *(_argument(file.path) for file in view.files))
        job = Job(
            what=f"check {view.name}",
            argv=words if about.isolated else Cage(place).around(words),
            image=image,
            platform=about.platform if about.isolated else None,
            workdir=place,
            volumes=(volume,),
            limits=Limits(seconds=view.seconds, memory=_MEMORY, pids=512),
        )
        return engine.run(job, output)  # type: ignore[arg-type]
    finally:
        engine.remove(volume.name)


def _entries(view: View) -> Iterator[Entry]:
    """Yield the files for the program's working directory, without duplicates."""
    for file in sorted({*view.files, *view.others}, key=lambda one: one.path):
        yield Entry(path=file.path, data=_content(view, file), executable=bool(file.mode & 0o100))


def _content(view: View, file: TreeFile) -> bytes:
    return view.objects.blob(file.oid, file.path)


def _argument(path: str) -> str:
    """Return a path as an argument that no program reads as an option."""
    return f"./{path}" if path.startswith("-") else path


def _judged(settings: CommandSettings, view: View, outcome: Outcome, printed: bytes, *, isolated: bool) -> Found:
    text = printed
    if not isolated:
        caged, text = Cage.opened(printed)
        if not caged and outcome.ending is Ending.EXITED:
            told = " ".join(printed.decode("utf-8", "replace").split())[:_WIDTH]
            reason = (
                f"this machine cannot run a program without network ({told or outcome.code}): use a container engine"
            )
            return Found(verdict=Verdict.INVALID, reason=reason)
    output = _first(text)
    if outcome.ending is Ending.TIMED_OUT:
        reason = f"it took over {view.seconds:g} s and was stopped"
        return Found(verdict=Verdict.INVALID, reason=reason, output=output)
    if outcome.ending is Ending.OUT_OF_MEMORY:
        return Found(verdict=Verdict.INVALID, reason="it ran out of memory", output=output)
    if outcome.code == 0:
        return Found(verdict=Verdict.PASS, reason=f"{settings.run[0]} exited 0", output=output)
    if outcome.code == 1:
        told = f": {output[0]}" if output else ""
        return Found(verdict=Verdict.FAIL, reason=f"{settings.run[0]} exited 1{told}", output=output)
    if outcome.code == _NOT_FOUND:
        return Found(verdict=Verdict.INVALID, reason=f"{settings.run[0]} is not installed on the engine", output=output)
    return Found(verdict=Verdict.INVALID, reason=f"{settings.run[0]} exited {outcome.code}", output=output)


def _first(printed: bytes) -> tuple[str, ...]:
    """Return the first lines of the output, each truncated to a maximum length."""
    head = printed[: 4 * _WIDTH * _SHOWN].decode("utf-8", "replace").splitlines()
    return tuple(line[:_WIDTH] for line in head[:_SHOWN])


def _cause(error: PatchstackError) -> str:
    return "; ".join([error.message, *error.problems])


KIND = Kind(
    name="command",
    about="A program that judges files of the tree.",
    read=read,
    judge=judge,
    needs=lambda settings: settings.besides,
    seconds=60.0,
)
