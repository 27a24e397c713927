"""The image of a server's client: the named one, the server's own with Python, or that of a recipe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from patchstack.causes import ImageNotBuilt
from patchstack.engine.protocol import About, Ending, Engine, EngineLost, Image, ImageMissing, Job, Outcome
from patchstack.observe.client_image import client_image
from patchstack.observe.layout import Programs
from patchstack.observe.protocol import Beside

SERVER = "the/server"


class Containers:
    """An engine with images by their names; those of `python` have it. `building` makes one, or raises."""

    def __init__(self, *names: str, python: tuple[str, ...] = (), building: Exception | None = None) -> None:
        self.names, self.python, self.building = [SERVER, *names], python, building
        self.asked: list[str | None] = []
        self.built: list[str] = []

    def image(self, reference: str, *, platform: str) -> Image:
        for name in self.names:
            if reference == name or (name.endswith("*") and reference.startswith(name[:-1])):
                return Image(reference=name, digest=f"sha256:{name}", platform=platform)
        raise ImageMissing(f"no image {reference}")

    def run(self, job: Job, output: Callable[[bytes], None]) -> Outcome:
        self.asked.append(job.image)
        return Outcome(ending=Ending.EXITED, code=0 if job.image in self.python else 1, seconds=0.1)

    def build_image(self, directory: Path, *, tag: str, platform: str, **more: Any) -> Image:
        if self.building is not None:
            raise self.building
        self.built.append(directory.name)
        return Image(reference=tag, digest="sha256:built", platform=platform)


ABOUT = About(
    spec="docker",
    kind="docker",
    endpoint="unix:///x",
    version="1",
    platform="linux/amd64",
    cpus=1,
    memory=1,
    local=True,
    isolated=True,
)
HOST = About(
    spec="host",
    kind="host",
    endpoint="here",
    version="1",
    platform="linux/amd64",
    cpus=1,
    memory=1,
    local=True,
    isolated=False,
)


def chosen(
    engine: Containers, memory: Path, *, image: str | None = None, about: About = ABOUT, offline: bool = False
) -> str | None:
    beside = Beside(what="ask", args=(), files={}, brings=(), image=image)
    programs = Programs(directory=memory, platform="linux/amd64", image=SERVER)
    return client_image(cast(Engine, engine), about, beside, programs, memory, offline=offline)


def test_on_a_host_there_is_none(tmp_path: Path) -> None:
    engine = Containers()
    assert chosen(engine, tmp_path, about=HOST, image="mine") is None


def test_the_one_that_is_named_is_taken_as_it_is(tmp_path: Path) -> None:
    engine = Containers()
    assert chosen(engine, tmp_path, image="mine") == "mine"
    assert engine.asked == []


@pytest.mark.parametrize("python", [True, False])
def test_the_servers_own_is_taken_if_it_has_python_which_is_asked_once(tmp_path: Path, python: bool) -> None:
    engine = Containers("patchstack/client:recipe-*", python=(SERVER,) if python else ())
    wanted = SERVER if python else "sha256:patchstack/client:recipe-*"
    assert [chosen(engine, tmp_path) for _ in range(3)] == [wanted] * 3
    assert engine.asked == [SERVER] and engine.built == []


def test_an_image_of_the_plain_name_does_not_serve_since_nobody_knows_what_is_in_it(tmp_path: Path) -> None:
    engine = Containers("patchstack/client")
    assert chosen(engine, tmp_path) == "sha256:built" and engine.built == ["client"]


def test_else_the_recipe_makes_it(tmp_path: Path) -> None:
    engine = Containers()
    assert chosen(engine, tmp_path) == "sha256:built" and engine.built == ["client"]


def test_an_image_that_cannot_be_made_is_missing_and_says_how_to_have_one(tmp_path: Path) -> None:
    with pytest.raises(ImageMissing) as raised:
        chosen(Containers(building=ImageNotBuilt("no network")), tmp_path)
    assert raised.value.message == (
        "the image of the server has no Python 3.11, and patchstack/client cannot be built: no network"
    )
    assert "docker build -t patchstack/client" in str(raised.value.hint) and "--build-arg BASE=NAME" in str(
        raised.value.hint
    )


def test_an_engine_that_is_lost_is_no_missing_image(tmp_path: Path) -> None:
    with pytest.raises(EngineLost):
        chosen(Containers(building=EngineLost("gone")), tmp_path)


def test_offline_none_is_made(tmp_path: Path) -> None:
    engine = Containers()
    with pytest.raises(ImageMissing, match="building it needs the network, but --offline is set"):
        chosen(engine, tmp_path, offline=True)
    assert engine.built == []
    there = "patchstack/client:recipe-*"
    assert chosen(Containers(there), tmp_path, offline=True) == f"sha256:{there}"
