"""What every gate command shares: a bench for a directory of programs, and a verdict on stdout."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.cli.failures import talk
from patchstack.cli.options import nearest_workspace, open_chosen_engine
from patchstack.errors import Exit, UsageError
from patchstack.files.places import cache_places
from patchstack.tasks import task

if TYPE_CHECKING:
    from patchstack.engine.protocol import Engine
    from patchstack.gates.judgement import Judgement
    from patchstack.observe.layout import Programs
    from patchstack.observe.protocol import Model
    from patchstack.observe.runner import Runner

_WAIT = 600.0  # seconds for who has the GPU

BinOption = Annotated[Path, typer.Option("--bin", metavar="DIR", help="The programs: a build's bin.")]
ModelOption = Annotated[Path, typer.Option("--model", metavar="FILE", help="The model, on the engine's machine.")]
ImageOption = Annotated[
    str | None, typer.Option("--image", metavar="NAME", help="The image that containers run the programs in.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print a patchstack.gate/1 document.")]
AgainOption = Annotated[bool, typer.Option("--again", help="Run it even where it is known what it gives.")]


@contextlib.contextmanager
def stand(
    *,
    bin: Path,  # noqa: A002  (the option's name)
    kind: str,
    version: int,
    engine: str | None = None,
    image: str | None = None,
    again: bool = False,
) -> Iterator[Runner]:
    """A bench for one gate: the programs of a directory, on this host unless an engine is named. `kind` and `version`
    are the gate kind's. Raises `UsageError` for a container engine without an image."""
    from patchstack.observe.layout import Programs, uses_gpu

    spec, workspace = engine or "host", nearest_workspace(None)
    cache = cache_places()
    with contextlib.closing(open_chosen_engine(spec, workspace)) as chosen:
        about = chosen.about()
        if about.isolated and image is None:
            raise UsageError(
                f"{about.spec} runs containers: of which image?", hint="--image NAME; the one the build was made in"
            )
        programs = Programs(directory=bin, platform=about.platform, image=image, gpus=uses_gpu(bin))
        with (
            fit_bench(
                chosen,
                lambda: open_chosen_engine(spec, workspace),
                programs,
                observations=cache.observations,
                purpose=f"patchstack gate {kind}",
                kind=f"{kind}/{version}",
                again=again,
            ) as bench,
            task(f"gate {kind}", announced=True),
        ):
            yield bench


@contextlib.contextmanager
def fit_bench(
    engine: Engine,
    open_another: Callable[[], Engine],
    programs: Programs,
    *,
    observations: Path,
    purpose: str,
    kind: str = "",
    allow: Sequence[str] = (),
    again: bool = False,
    gpus: bool = True,
) -> Iterator[Runner]:
    """A bench for programs on a machine that is fit, its GPU locked where they use one (but for `gpus` False: then none
    is theirs). Observations are kept below `observations`; `purpose` is what others who want the GPU are told. Raises
    what `fit_machine` and `require_gpu` raise."""
    from patchstack.evidence.store import Observations
    from patchstack.llama.devices import require_gpu
    from patchstack.observe.exclusive import fit_machine
    from patchstack.observe.observer import RunContext
    from patchstack.observe.runner import Runner

    programs.names()  # said before anybody waits for a GPU
    cache = cache_places()
    with contextlib.ExitStack() as stack:
        with task("looking at the machine"):
            machine = stack.enter_context(
                fit_machine(
                    engine,
                    open_another,
                    gpus=programs.gpus and gpus,
                    image=programs.image,
                    allow=allow,
                    purpose=purpose,
                    wait=_WAIT,
                    tell=talk,
                )
            )
        bench = stack.enter_context(
            Runner(
                engine,
                programs,
                observations=Observations(observations, cache.outputs),
                memory=cache.digests,
                context=RunContext(kind=kind),
                hardware=machine,
                again=again,
                builds=cache.builds,
            )
        )
        if programs.gpus and gpus:
            with task("asking programs for the GPU"):
                require_gpu(bench)
        yield bench


def a_model(path: Path, name: str = "model") -> Model:
    """A model given on the command line."""
    from patchstack.observe.protocol import Model

    return Model(name=name, path=str(path.expanduser().absolute()))


def finish(judgement: Judgement, *, kind: str, json: bool) -> Exit:
    """Print a judgement, and give the exit code it stands for."""
    from patchstack.report.gate import gate_lines
    from patchstack.verdict import exit_code

    if json:
        from patchstack.report.documents.gates import gate_document

        print(gate_document(kind, judgement).line)
    else:
        for line in gate_lines(kind, judgement):
            print(line)
    return exit_code([judgement.verdict])
