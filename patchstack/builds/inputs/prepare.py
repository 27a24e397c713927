"""Resolve a request to the inputs of a build. This needs an engine that can be reached."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path

from patchstack.builds.inputs.images import (
    RecipeImage,
    Talk,
    build_recipe_image,
    find_recipe_image,
    recipe_directory,
    with_other_way,
)
from patchstack.builds.inputs.plan import Plan, Request, make_plan
from patchstack.builds.inputs.source import Source
from patchstack.builds.inputs.toolchain import container_toolchain, host_toolchain
from patchstack.builds.inputs.variant import Setting, Variants
from patchstack.builds.run.build import Inputs, require_packages
from patchstack.causes import SourceMissing
from patchstack.engine.protocol import BuildsImages, Engine, Image, ImageMissing
from patchstack.files import processes
from patchstack.tasks import task


@task("preparing the build")
def prepare(
    request: Request,
    source: Source,
    engine: Engine,
    variants: Variants,
    memory: Path,
    talk: Talk,
    *,
    default: Setting[str] | None = None,
    offline: bool = False,
) -> Inputs:
    """Return the inputs of a build.

    If the image has a recipe and does not exist, it is built, unless `offline` is set or the engine cannot build
    images. `memory` is a cache directory for digests and versions. `default` is used as in `make_plan`. Raises the
    errors of `make_plan`, of the engine, and of the search for tools.
    """
    plan = make_plan(request, variants, engine.about(), default)
    if plan.engine.isolated:
        image = _image(engine, plan, talk, offline=offline)
        toolchain = container_toolchain(engine, image, plan, memory)
    else:
        plan, nvcc = _with_nvcc(plan)
        toolchain = host_toolchain(plan, nvcc, memory)
    plan = plan.with_tools(toolchain.versions)
    return Inputs(source=source, plan=plan, toolchain=toolchain, processor=_processor() if plan.native else None)


def _image(engine: Engine, plan: Plan, talk: Talk, *, offline: bool) -> Image:
    if plan.image is None:
        raise SourceMissing(
            f"variant {plan.variant} has no image",
            hint="use --image NAME, set image: in patchstack.yaml, or use --engine host",
        )
    if plan.recipe is None:
        image = engine.image(plan.image.value, platform=plan.platform.value)
        assert image is not None
        return image
    directory = recipe_directory(plan.recipe)
    wanted = RecipeImage(image=plan.image.value, recipe=directory, platform=plan.platform.value)
    try:
        return find_recipe_image(engine, wanted)
    except ImageMissing as error:
        if offline or not isinstance(engine, BuildsImages):
            raise with_other_way(error, engine, wanted) from error
    require_packages()  # with a new image, there is no stored build yet, and a new build needs these packages
    try:
        return build_recipe_image(engine, wanted, talk)
    except ImageMissing as error:
        raise with_other_way(error, engine, wanted) from error


def _with_nvcc(plan: Plan) -> tuple[Plan, Path | None]:
    """Return the plan with the host's CUDA toolkit, and the path of the toolkit's nvcc.

    If the plan names no toolkit, the toolkit of the nvcc on this machine is used. The path is None for a plan without
    CUDA, and if no nvcc is found.
    """
    if not plan.cuda:
        return plan, None
    if plan.toolkit is not None:
        return plan, Path(plan.toolkit.value) / "bin" / "nvcc"
    from patchstack.machine.local.toolchain import find_nvcc, toolkit_root

    found = find_nvcc(os.environ)
    if found is None:
        return plan, None
    root = toolkit_root(found, os.environ)
    return replace(plan, toolkit=Setting(value=str(root), origin=f"nvcc by {found.found_by}")), root / "bin" / "nvcc"


def _processor() -> str:
    """Return the processor's model name, and a digest of its feature flags.

    The code that `-march=native` generates depends on them.
    """
    model, flags = "unknown", ""
    for line in processes.cpuinfo().splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "CPU part") and model == "unknown":
            model = value.strip()
        if name.strip() in ("flags", "Features") and not flags:
            flags = " ".join(sorted(value.split()))
    return f"{model} {hashlib.sha256(flags.encode()).hexdigest()[:16]}"
