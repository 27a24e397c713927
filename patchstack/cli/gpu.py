"""`patchstack gpu`: check the machine that has the GPU, and lock the GPU for a command."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.causes import BadValue, GpuCheckFailed
from patchstack.cli.failures import talk
from patchstack.cli.lazy import STYLE
from patchstack.cli.options import EngineOption, nearest_workspace, open_chosen_engine
from patchstack.errors import Exit

if TYPE_CHECKING:
    from patchstack.machine.ask import Reach

gpu_app = typer.Typer(
    name="gpu",
    help="Check the machine that has the GPU, and lock the GPU.",
    no_args_is_help=True,
    **STYLE,
)

JsonOption = Annotated[bool, typer.Option("--json", help="Print a patchstack.gpu/1 document.")]
ImageOption = Annotated[
    str | None,
    typer.Option(
        "--image", metavar="NAME", help="The image for an engine whose machine can be inspected only from a container."
    ),
]
PlaceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--lock",
        metavar="DIR",
        help="The directory of the lock on the machine that has the GPU. Replaces the default. Repeatable.",
    ),
]


@gpu_app.command("status", short_help="Show the hardware, who has the GPU, and whether the machine is idle.")
def status_command(
    engine: EngineOption = None,
    image: ImageOption = None,
    lock: PlaceOption = None,
    allow: Annotated[
        list[str] | None, typer.Option("--allow", metavar="CHECK", help="A check that may fail. Repeatable.")
    ] = None,
    settle: Annotated[
        float, typer.Option(metavar="SECONDS", help="The maximum time to wait for an idle machine.")
    ] = 0.0,
    gpu: Annotated[bool, typer.Option("--gpu/--no-gpu", help="Check for runs on the GPU, or only on the CPU.")] = True,
    json: JsonOption = False,
) -> None:
    """Check whether the machine that has the GPU is fit for measurements.

    Also shows the hardware, what its results prove about a GB10, and who holds the lock. Writes nothing. Exits with 0
    if the machine is fit, otherwise with 4.
    """
    from patchstack.machine.gpu.lock import look
    from patchstack.machine.gpu.preflight import Wanted, allowed, preflight
    from patchstack.report.documents.gpu import gpu_document
    from patchstack.report.machine import hardware_lines, preflight_table
    from patchstack.report.table import print_table
    from patchstack.report.text import printable

    permitted = allowed(tuple(allow or ()))
    with _reached(engine, image, lock, gpus=gpu) as reached:
        wanted = Wanted(gpu=gpu, allow=permitted, settle=settle)
        flight = preflight(reached.ask, wanted, places=reached.places, tell=talk)
        holders = look(reached.ask, reached.places)
    if json:
        print(gpu_document(reached.how, flight, holders).line)
    else:
        print(printable("\n".join(hardware_lines(flight.hardware))))
        print()
        print_table(preflight_table(flight))
        if not gpu:
            print(printable("\n".join(f"lock: {holder.words}" for holder in holders)))
    raise typer.Exit(int(Exit.HOLDS if flight.ok else Exit.INVALID))


@gpu_app.command("lock", short_help="Run a command that has the GPU to itself.")
def lock_command(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="The command to run, after --.")],
    purpose: Annotated[str | None, typer.Option(metavar="TEXT", help="The purpose that other users see.")] = None,
    wait: Annotated[
        float, typer.Option(metavar="SECONDS", help="The maximum time to wait for the current owner.")
    ] = 0.0,
    engine: EngineOption = None,
    image: ImageOption = None,
    lock: PlaceOption = None,
) -> None:
    """Run a command on this machine while holding the lock of the GPU, and exit with its exit code.

    Use it for a profiler, or for your own script. If the command starts patchstack, that process uses the same lock.
    Exits with 4 if somebody else has the GPU, or took over the lock during the run.
    """
    from patchstack.machine.gpu.lock import TOKEN, end_below, gpu_lock
    from patchstack.process import attached

    with _reached(engine, image, lock) as reached:
        what = purpose or " ".join(command)
        with gpu_lock(reached.ask, what, places=reached.places, wait=wait, tell=talk) as held:
            os.environ.setdefault(TOKEN, held.token)
            try:
                code = attached(command)
            except BaseException:
                end_below(held.token)  # otherwise, the command's programs would keep the GPU busy
                raise
            finally:
                if os.environ.get(TOKEN) == held.token:
                    del os.environ[TOKEN]
            held.check()
    raise typer.Exit(code if code >= 0 else 128 - code)


@gpu_app.command("unlock", short_help="Release a lock whose owner is gone.")
def unlock_command(
    force: Annotated[
        bool, typer.Option("--force", help="Release the lock even if its owner is alive or unknown.")
    ] = False,
    engine: EngineOption = None,
    image: ImageOption = None,
    lock: PlaceOption = None,
) -> None:
    """Release the lock of the GPU if its owner is gone.

    With --force, the lock is released for any owner. Writes only the lock file. Exits with 1 if the lock is still held.
    """
    from patchstack.machine.gpu.lock import Standing, let_go_of, look

    with _reached(engine, image, lock) as reached:
        for holder in look(reached.ask, reached.places):
            if holder.standing is Standing.FREE:
                print(f"{holder.place.path}: {holder.words}")
            elif holder.standing is not Standing.DEAD and not force:
                raise GpuCheckFailed(
                    f"{holder.place.path} was not released: {holder.words}",
                    hint="use --force to release the lock; this does not stop the owner",
                )
            elif let_go_of(reached.ask, holder):
                print(f"{holder.place.path}: released; {holder.words}")
            else:
                raise GpuCheckFailed(
                    f"{holder.place.path}: the lock changed and was not released", hint="run the command again"
                )


@contextlib.contextmanager
def _reached(engine: str | None, image: str | None, lock: list[str] | None, *, gpus: bool = True) -> Iterator[Reach]:
    """Yield the machine of the named engine, or else of the configured engine. Without either, yield this host."""
    from dataclasses import replace

    from patchstack.machine.ask import Place, reach

    workspace = nearest_workspace(None)
    configured = os.environ.get("PATCHSTACK_ENGINE") or (workspace.engine if workspace is not None else None)
    spec = engine or configured or "host"
    if any(not path.startswith(("/", "~/")) for path in lock or ()):
        raise BadValue("--lock must name a directory on the machine that has the GPU: /PATH or ~/PATH")
    with contextlib.closing(open_chosen_engine(spec, None)) as chosen:
        reached = reach(chosen, lambda: open_chosen_engine(spec, None), image=image, gpus=gpus)
        places = tuple(Place(path=path) for path in lock or ())
        yield replace(reached, places=places) if places else reached
