"""Gates on programs that are there: one alone, or a suite on a build."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from patchstack.errors import UsageError
from patchstack.files.places import cache_places
from patchstack.gates.judgement import Judgement
from patchstack.gates.kind import Kind
from patchstack.observe.layout import Programs, uses_gpu
from patchstack.tasks import task
from patchstack.workflow.machine import Connection, open_runner

S = TypeVar("S")


def run_alone(
    kind: Kind[S], settings: S, connection: Connection, directory: Path, *, image: str | None, again: bool
) -> Judgement:
    """Run one gate on the programs of a directory, on a machine that is fit. Observations are kept in the cache.

    Raises `UsageError` for a container engine without an image, `MissingError` if a model or program is missing.
    """
    about = connection.engine.about()
    if about.isolated and image is None:
        raise UsageError(
            f"{about.spec} runs containers: of which image?", hint="--image NAME; the one the build was made in"
        )
    programs = Programs(directory=directory, platform=about.platform, image=image, gpus=uses_gpu(directory))
    with (
        open_runner(
            connection,
            programs,
            observations=cache_places().observations,
            purpose=f"patchstack gate {kind.name}",
            kind=kind.key,
            again=again,
        ) as runner,
        task(f"gate {kind.name}", announced=True),
    ):
        return kind.run(settings, runner)
