"""Find and build the images of the recipes that patchstack ships.

The name of an image contains the digest of its recipe, so each recipe is built once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from patchstack.builds.inputs.variant import builders_directory
from patchstack.causes import VariantUnusable
from patchstack.engine.protocol import BuildsImages, Engine, Image, ImageMissing, PlatformUnsupported

Talk = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeImage:
    """An image that a recipe builds.

    `image` is its plain name, `recipe` is the directory of the recipe, and `platform` is its platform.
    """

    image: str
    recipe: Path
    platform: str

    @property
    def name(self) -> str:
        """The full name of the image, which contains the digest of the recipe."""
        return recipe_image(self.image, self.recipe)


def find_recipe_image(engine: Engine, wanted: RecipeImage) -> Image:
    """Return the image that the recipe builds.

    Raises `ImageMissing` if the image does not exist, and `PlatformUnsupported` if it is for a different platform.
    """
    image = engine.image(wanted.name, platform=wanted.platform)
    assert image is not None
    return image


def with_other_way(error: ImageMissing, engine: Engine, wanted: RecipeImage) -> ImageMissing:
    """Return the error, with a better hint if possible.

    If an image with the plain name exists, the hint describes how to use this image. Such an image is used only on
    request, because a plain name does not show what the image was built from.
    """
    plain = wanted.image
    try:
        engine.image(plain, platform=wanted.platform)
    except (ImageMissing, PlatformUnsupported):
        return error
    told = f"to use the image {plain} of the engine, set image: {plain} in the variant in patchstack.yaml"
    hint = f"{told} (for build and accept: --image {plain}); or {error.hint}"
    return ImageMissing(error.message, problems=error.problems, hint=hint)


def build_recipe_image(engine: BuildsImages, wanted: RecipeImage, talk: Talk) -> Image:
    """Build the image of a recipe. Raises the errors of `build_image`."""
    talk(f"image {wanted.name} does not exist yet: building it from {wanted.recipe}")
    return engine.build_image(
        wanted.recipe, tag=wanted.name, platform=wanted.platform, args={}, output=lambda _: None, network=None
    )


def recipe_directory(recipe: str) -> Path:
    """Return the directory of a recipe that patchstack ships.

    Raises `ConfigError` for any other recipe, and for links, because recipes run with network access.
    """
    builders = builders_directory().resolve()
    directory = (builders / recipe).resolve()
    if directory.parent != builders or not (directory / "Dockerfile").is_file():
        known = sorted(path.parent.name for path in builders.glob("*/Dockerfile"))
        raise VariantUnusable(f"patchstack does not ship the recipe {recipe!r}", hint=f"use one of: {', '.join(known)}")
    return directory


def recipe_image(image: str, recipe: Path) -> str:
    """Return the name of the image that a recipe builds.

    The name contains the digest of the recipe's files, which name their base image by digest. So a build never uses an
    image of the same name from a different recipe.
    """
    digest = hashlib.sha256()
    for path in sorted(recipe.rglob("*")):
        if path.is_file():
            name = path.relative_to(recipe).as_posix().encode()
            digest.update(b"%d %s %d\0" % (len(name), name, path.stat().st_size) + path.read_bytes())
    repository = image.rpartition(":")[0] if ":" in image.rpartition("/")[2] else image
    return f"{repository}:recipe-{digest.hexdigest()[:32]}"
