"""What every gate command shares: a bench for a directory of programs, and a verdict on stdout."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.cli.options import nearest_workspace
from patchstack.cli.proving import connected
from patchstack.errors import Exit, UsageError
from patchstack.files.places import cache_places
from patchstack.tasks import task

if TYPE_CHECKING:
    from patchstack.gates.judgement import Judgement
    from patchstack.observe.protocol import Model
    from patchstack.observe.runner import Runner

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
    from patchstack.workflow.machine import open_runner

    with connected(engine or "host", nearest_workspace(None)) as connection:
        about = connection.engine.about()
        if about.isolated and image is None:
            raise UsageError(
                f"{about.spec} runs containers: of which image?", hint="--image NAME; the one the build was made in"
            )
        programs = Programs(directory=bin, platform=about.platform, image=image, gpus=uses_gpu(bin))
        with (
            open_runner(
                connection,
                programs,
                observations=cache_places().observations,
                purpose=f"patchstack gate {kind}",
                kind=f"{kind}/{version}",
                again=again,
            ) as runner,
            task(f"gate {kind}", announced=True),
        ):
            yield runner


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
