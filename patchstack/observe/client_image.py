"""Find an image that has Python, for the client of a server."""

from __future__ import annotations

import hashlib
from pathlib import Path

from patchstack.builds.inputs.images import (
    RecipeImage,
    build_recipe_image,
    find_recipe_image,
    recipe_directory,
)
from patchstack.builds.inputs.toolchain import recall, remember
from patchstack.engine.protocol import About, BuildsImages, Engine, EngineLost, ImageMissing, Job
from patchstack.errors import PatchstackError
from patchstack.observe.layout import Programs
from patchstack.observe.protocol import Beside
from patchstack.tasks import doing

RECIPE, IMAGE = "client", "patchstack/client"
PROBE = "import asyncio, base64, gzip, json, ssl, sys; sys.exit(sys.version_info < (3, 11))"
SCRIPT = 'command -v python3 >/dev/null && exec python3 -I -S -c "$0"'


def client_image(
    engine: Engine, about: About, beside: Beside, programs: Programs, memory: Path, *, offline: bool = False
) -> str | None:
    """Return the image for the client of a server. Return None for an engine without images.

    The first of these is used:

    - the image that the client names;
    - the image of the server, if it has Python;
    - the image of the recipe `client`, which is built when it is first needed, unless `offline` is set.

    `memory` is a directory that records which images have Python. Raises `ImageMissing` if no image is found and none
    can be built.
    """
    if not about.isolated:
        return None
    if beside.image is not None:
        return beside.image
    if programs.image is not None and _has_python(engine, programs.image, programs.platform, memory):
        return programs.image
    wanted = RecipeImage(image=IMAGE, recipe=recipe_directory(RECIPE), platform=about.platform)
    try:
        return find_recipe_image(engine, wanted).digest
    except ImageMissing as error:
        try:
            if offline or not isinstance(engine, BuildsImages):
                raise ImageMissing("building it needs the network, but --offline is set") if offline else error
            return build_recipe_image(engine, wanted, doing).digest
        except EngineLost:
            raise
        except PatchstackError as failed:
            raise ImageMissing(
                f"the image of the server has no Python 3.11, and {IMAGE} cannot be built: {failed.message}",
                hint=f"run 'docker build -t {wanted.name} {wanted.recipe}' (with --build-arg BASE=NAME if necessary), "
                "or use an image that has python3",
            ) from error


def _has_python(engine: Engine, image: str, platform: str, memory: Path) -> bool:
    """Return whether an image has a Python that the client can use. The result is cached."""
    found = engine.image(image, platform=platform)
    if found is None:
        return False
    name = hashlib.sha256(f"python {PROBE} {found.digest}".encode()).hexdigest()
    known = recall(memory, name)
    if known is None:
        job = Job(what="look for Python", argv=("sh", "-c", SCRIPT, PROBE), image=image, platform=platform)
        outcome = engine.run(job, lambda _: None)
        known = remember(memory, name, {"python": "yes" if outcome.ok else "no"})
    return known["python"] == "yes"
