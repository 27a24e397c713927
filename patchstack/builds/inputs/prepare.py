"""From a request to the inputs of a build: the engine is asked what it is and has, and everything is resolved."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from patchstack.builds.inputs.plan import Plan, Request, make_plan
from patchstack.builds.inputs.source import Source
from patchstack.builds.inputs.toolchain import container_toolchain, host_toolchain
from patchstack.builds.inputs.variant import Setting, Variants, builders_directory
from patchstack.builds.run.build import Inputs, require_packages
from patchstack.causes import SourceMissing, VariantUnusable
from patchstack.engine.protocol import BuildsImages, Engine, Image, ImageMissing
from patchstack.files import processes
from patchstack.tasks import task

Talk = Callable[[str], None]


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
    untrusted: bool = False,
) -> Inputs:
    """Resolve everything a build needs. An image that does not exist and has a recipe is built, unless `offline`. For
    `untrusted` sources, an image that has a recipe is only the one that the recipe makes.

    Raises what planning, the engine and the search for tools raise.
    """
    plan = make_plan(request, variants, engine.about(), default)
    if plan.engine.isolated:
        image = _image(engine, plan, talk, offline=offline, untrusted=untrusted)
        toolchain = container_toolchain(engine, image, plan, memory)
    else:
        plan, nvcc = _with_nvcc(plan)
        toolchain = host_toolchain(plan, nvcc, memory)
    plan = plan.with_tools(toolchain.versions)
    return Inputs(source=source, plan=plan, toolchain=toolchain, processor=_processor() if plan.native else None)


def _image(engine: Engine, plan: Plan, talk: Talk, *, offline: bool, untrusted: bool) -> Image:
    if plan.image is None:
        raise SourceMissing(
            f"variant {plan.variant} names no image",
            hint="--image NAME, or image: in patchstack.yaml; or --engine host",
        )
    recipe = recipe_directory(plan.recipe) if plan.recipe is not None else None
    name = plan.image.value if recipe is None else recipe_image(plan.image.value, recipe)
    try:
        image = engine.image(name, platform=plan.platform.value)
    except ImageMissing:
        own = None if untrusted or recipe is None else _own_image(engine, plan, talk)
        if own is not None:
            return own
        if offline or recipe is None or not isinstance(engine, BuildsImages):
            raise
        require_packages()  # the build that the image is for cannot be in the store
        talk(f"there is no image {name} yet: building it from {recipe}, once")
        image = engine.build_image(
            recipe, tag=name, platform=plan.platform.value, args={}, output=lambda _: None, network=None
        )
    assert image is not None
    return image


def _own_image(engine: Engine, plan: Plan, talk: Talk) -> Image | None:
    """The image of the plain name, which somebody made here by hand, with another base say."""
    assert plan.image is not None
    try:
        image = engine.image(plan.image.value, platform=plan.platform.value)
    except ImageMissing:
        return None
    talk(f"note: {plan.image.value} is the image that is here under this name, not what its recipe makes")
    return image


def recipe_directory(recipe: str) -> Path:
    """Return the directory of a recipe that patchstack ships. Raises `ConfigError` for anything else: a recipe is run
    with network, so nobody may bring one, nor lead there by a link."""
    builders = builders_directory().resolve()
    directory = (builders / recipe).resolve()
    if directory.parent != builders or not (directory / "Dockerfile").is_file():
        known = sorted(path.parent.name for path in builders.glob("*/Dockerfile"))
        raise VariantUnusable(
            f"the recipe {recipe!r} is none that patchstack ships", hint=f"recipe: is one of {', '.join(known)}"
        )
    return directory


def recipe_image(image: str, recipe: Path) -> str:
    """Return the name of the image that a recipe makes: by the digest of its files, which name the base by its own.

    So nothing is built from an image that another recipe left under the same name.
    """
    digest = hashlib.sha256()
    for path in sorted(recipe.rglob("*")):
        if path.is_file():
            name = path.relative_to(recipe).as_posix().encode()
            digest.update(b"%d %s %d\0" % (len(name), name, path.stat().st_size) + path.read_bytes())
    repository = image.rpartition(":")[0] if ":" in image.rpartition("/")[2] else image
    return f"{repository}:recipe-{digest.hexdigest()[:32]}"


def _with_nvcc(plan: Plan) -> tuple[Plan, Path | None]:
    """On the host, the toolkit is the one named, or the one that nvcc is found in."""
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
    """What `-march=native` depends on: model and feature flags, as a digest with the model's name before it."""
    model, flags = "unknown", ""
    for line in processes.cpuinfo().splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "CPU part") and model == "unknown":
            model = value.strip()
        if name.strip() in ("flags", "Features") and not flags:
            flags = " ".join(sorted(value.split()))
    return f"{model} {hashlib.sha256(flags.encode()).hexdigest()[:16]}"
