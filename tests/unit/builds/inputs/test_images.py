"""Only shipped recipes are used, and their images are named by the recipe's content."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from patchstack.builds.inputs.images import recipe_directory, recipe_image
from patchstack.builds.inputs.key import Toolchain
from patchstack.builds.inputs.plan import Plan, Request
from patchstack.builds.inputs.prepare import prepare
from patchstack.builds.inputs.source import Source
from patchstack.builds.inputs.variant import Variants, builders_directory, load_variants
from patchstack.engine.protocol import About, Engine, Image, ImageMissing
from patchstack.errors import ConfigError
from patchstack.workspace import VariantConfig


@pytest.mark.parametrize(
    "recipe", ["../../x", "..", ".", "", "/", "/etc", "cpu/..", "../builders", "nowhere", "cpu/../../x"]
)
def test_a_recipe_that_is_not_shipped_is_refused(recipe: str) -> None:
    with pytest.raises(ConfigError, match="patchstack does not ship the recipe") as raised:
        recipe_directory(recipe)
    assert raised.value.hint == "use one of: client, cpu, cuda"


def test_a_shipped_recipe_is_found_also_by_another_way_to_it() -> None:
    assert recipe_directory("cpu") == recipe_directory("cuda/../cpu") == builders_directory().resolve() / "cpu"


def test_a_link_does_not_lead_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(builders_directory(), tmp_path / "builders")
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "Dockerfile").write_text("FROM evil\n")
    (tmp_path / "builders" / "mine").symlink_to(tmp_path / "x")
    monkeypatch.setattr("patchstack.builds.inputs.images.builders_directory", lambda: tmp_path / "builders")
    with pytest.raises(ConfigError, match="patchstack does not ship the recipe"):
        recipe_directory("mine")


def test_the_name_of_an_image_follows_every_byte_and_name_of_its_recipe(tmp_path: Path) -> None:
    recipe = tmp_path / "cpu"
    recipe.mkdir()
    (recipe / "Dockerfile").write_text("FROM debian@sha256:1\n")
    first = recipe_image("patchstack/cpu", recipe)
    assert first.startswith("patchstack/cpu:recipe-")
    assert recipe_image("host:5000/patchstack/cpu:latest", recipe) == f"host:5000/{first}"
    (recipe / "Dockerfile").write_text("FROM debian@sha256:2\n")
    second = recipe_image("patchstack/cpu", recipe)
    (recipe / "more").write_text("")
    assert len({first, second, recipe_image("patchstack/cpu", recipe)}) == 3


@dataclass
class Images:
    """An engine with only images: those that it has, and those that it was asked to build."""

    here: set[str] = field(default_factory=set)
    built: list[tuple[Path, str]] = field(default_factory=list)
    networked: bool = True

    def about(self) -> About:
        return About(
            kind="docker",
            spec="docker",
            endpoint="unix:///x",
            version="1",
            platform="linux/amd64",
            cpus=2,
            memory=1 << 33,
            local=True,
            isolated=True,
        )

    def image(self, reference: str, *, platform: str) -> Image:
        if reference not in self.here:
            raise ImageMissing(f"the engine has no image {reference}", hint="pull it")
        return Image(reference=reference, digest="sha256:1", platform=platform, labels={})

    def build_image(self, directory: Path, *, tag: str, platform: str, **_: object) -> Image:
        if not self.networked:
            raise ImageMissing(f"the image {tag} cannot be built: its base is missing", hint="bring the base there")
        self.built.append((directory, tag))
        self.here.add(tag)
        return self.image(tag, platform=platform)


def chosen(
    engine: Images,
    monkeypatch: pytest.MonkeyPatch,
    *,
    image: str | None = None,
    offline: bool = False,
    variants: Variants | None = None,
) -> str:
    """Return the image of a build of the variant `cpu`."""
    found = list[str]()

    def toolchain(_: Engine, image: Image, plan: Plan, memory: Path) -> Toolchain:
        found.append(image.reference)
        return Toolchain(digest="sha256:2", versions={"c++": "12"})

    monkeypatch.setattr("patchstack.builds.inputs.prepare.container_toolchain", toolchain)
    request = Request(variant="cpu", image=image)
    source = cast(Source, None)  # the content of the image does not matter
    known = variants if variants is not None else load_variants()
    prepare(request, source, cast(Any, engine), known, Path(), lambda _: None, offline=offline)
    return found[0]


NAMED = recipe_image("patchstack/cpu", builders_directory() / "cpu")


def test_an_image_of_the_plain_name_never_serves_in_place_of_the_recipe_s(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Images(here={"patchstack/cpu", "patchstack/cpu:latest"})
    assert chosen(engine, monkeypatch) == NAMED
    assert engine.built == [(builders_directory().resolve() / "cpu", NAMED)]
    assert chosen(engine, monkeypatch) == NAMED
    assert len(engine.built) == 1, "it is made once"


@pytest.mark.parametrize(("offline", "networked"), [(True, True), (False, False)])
def test_where_it_cannot_be_made_the_plain_one_is_refused_with_the_way_to_name_it(
    monkeypatch: pytest.MonkeyPatch, offline: bool, networked: bool
) -> None:
    engine = Images(here={"patchstack/cpu"}, networked=networked)
    with pytest.raises(ImageMissing, match="patchstack/cpu:recipe-") as raised:
        chosen(engine, monkeypatch, offline=offline)
    assert (raised.value.hint or "").startswith(
        "to use the image patchstack/cpu of the engine, set image: patchstack/cpu in the variant in patchstack.yaml"
        " (for build and accept: --image patchstack/cpu); or "
    )
    with pytest.raises(ImageMissing) as raised:
        chosen(Images(networked=networked), monkeypatch, offline=offline)
    assert raised.value.hint in ("pull it", "bring the base there")


def test_an_image_that_the_command_line_or_the_workspace_names_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Images(here={"patchstack/cpu"})
    assert chosen(engine, monkeypatch, image="patchstack/cpu", offline=True) == "patchstack/cpu"
    own = load_variants([VariantConfig(name="cpu", origin="patchstack.yaml: cpu", image="patchstack/cpu")])
    assert chosen(engine, monkeypatch, variants=own, offline=True) == "patchstack/cpu"
    assert not engine.built
