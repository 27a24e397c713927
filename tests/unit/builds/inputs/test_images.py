"""Recipes are those that patchstack ships, and their images are named by what is in them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from patchstack.builds.inputs.images import recipe_directory, recipe_image
from patchstack.builds.inputs.variant import builders_directory
from patchstack.errors import ConfigError


@pytest.mark.parametrize(
    "recipe", ["../../x", "..", ".", "", "/", "/etc", "cpu/..", "../builders", "nowhere", "cpu/../../x"]
)
def test_a_recipe_that_is_not_shipped_is_refused(recipe: str) -> None:
    with pytest.raises(ConfigError, match="patchstack does not ship the recipe") as raised:
        recipe_directory(recipe)
    assert raised.value.hint == "recipe: is one of client, cpu, cuda"


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
