"""Images built on a real engine, by its own builder, and by buildx if it is installed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchstack.engine.docker import images
from patchstack.engine.docker.engine import ContainerEngine
from patchstack.engine.protocol import Image, ImageMissing
from patchstack.errors import MissingError, UsageError
from tests.support.engines import IMAGE, container_engine, eventually, job, needs_docker, ran, raw_api

pytestmark = needs_docker
TAG = "patchstack-test-built:1"
MARK = "patchstack.test"
FROM = f"FROM {IMAGE}\nLABEL {MARK}=1\n"


@pytest.fixture(scope="module")
def engine() -> Iterator[ContainerEngine]:
    engine = container_engine()
    yield engine
    engine.close()
    with raw_api() as api:
        while found := api.images(filters={"label": MARK}, quiet=True):
            api.remove_image(found[0], force=True)  # the newest first: its base can be removed only after it


@pytest.fixture(params=["engine", "buildx"], autouse=True)
def builder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With a DOCKER_CONFIG that has the plugin, the docker program knows buildx; PATCHSTACK_TEST_BUILDX names one."""
    plugins = _BUILDX_CONFIG
    if request.param == "engine":
        monkeypatch.setattr(images, "_buildx", lambda: None)
    elif plugins is not None:
        monkeypatch.setenv("DOCKER_CONFIG", plugins)
    if request.param == "buildx" and images._buildx() is None:
        pytest.skip("no docker program with buildx 0.13 or newer")
    return str(request.param)


_BUILDX_CONFIG = os.environ.get("PATCHSTACK_TEST_BUILDX")


def built(engine: ContainerEngine, directory: Path, recipe: str, **args: str) -> tuple[Image, str]:
    (directory / "Dockerfile").write_text(recipe)
    said = bytearray()
    image = engine.build_image(
        directory, tag=TAG, platform="linux/amd64", args=args, output=said.extend, network="host"
    )
    return image, said.decode()


def test_an_image_is_built_tagged_and_labelled_with_its_base(engine: ContainerEngine, tmp_path: Path) -> None:
    (tmp_path / "greeting").write_text("hello\n")
    recipe = "ARG BASE=scratch\nFROM ${BASE} AS tools\nLABEL patchstack.test=1\nCOPY greeting /greeting\n"
    recipe += "FROM tools\nARG WHO\nRUN echo made for $WHO >>/greeting\n"
    image, said = built(engine, tmp_path, recipe, BASE=IMAGE, WHO="me")
    assert image.reference == TAG
    assert image.platform == "linux/amd64"
    assert image.labels[images.BASE_LABEL] == IMAGE
    assert images.BASE_DIGEST_LABEL not in image.labels  # imported here, so no registry has it
    assert image == engine.image(TAG, platform="linux/amd64")
    assert "RUN echo made for" in said
    assert ran(engine, job("cat", "/greeting", image=TAG))[1] == "hello\nmade for me\n"


def test_a_failing_step_is_named_with_its_last_lines(engine: ContainerEngine, tmp_path: Path) -> None:
    # The engine joins two streams: their order is kept only if there is time between them.
    recipe = f"{FROM}RUN echo fine\nRUN seq 100; sleep 1; echo no such package >&2; exit 3\n"
    with pytest.raises(MissingError) as failed:
        built(engine, tmp_path, recipe)
    assert failed.value.message.startswith(f"the build of the image {TAG} failed at ")
    assert "RUN seq 100; sleep 1; echo no such package >&2; exit 3: " in failed.value.message
    assert "3" in failed.value.message.rpartition(":")[2]
    assert sorted(failed.value.problems[-2:]) == ["100", "no such package"]
    assert len(failed.value.problems) <= 12


def test_a_base_that_cannot_be_had_is_named(engine: ContainerEngine, tmp_path: Path) -> None:
    with pytest.raises(ImageMissing) as failed:
        built(engine, tmp_path, "FROM registry.invalid/no/such:1\nRUN true\n")
    assert failed.value.message.startswith(
        f"the image {TAG} cannot be built: its base registry.invalid/no/such:1 is not on the engine, and its registry "
        "cannot be reached: "
    )
    assert "docker save registry.invalid/no/such:1 | docker load" in str(failed.value.hint)


def test_a_recipe_that_cannot_be_read_is_said(engine: ContainerEngine, tmp_path: Path) -> None:
    with pytest.raises((UsageError, MissingError), match=r"unknown instruction: RUNN"):
        built(engine, tmp_path, f"FROM {IMAGE}\nRUNN true\n")
    (tmp_path / "Dockerfile").unlink()
    with pytest.raises(MissingError, match=f"^cannot read the Dockerfile for {TAG}: {tmp_path}/Dockerfile: "):
        engine.build_image(tmp_path, tag=TAG, platform="linux/amd64", args={}, output=bytearray().extend)


def test_an_error_in_what_takes_the_output_ends_the_build(engine: ContainerEngine, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(f"{FROM}RUN echo be''gun {tmp_path}; sleep 61\n")

    def running() -> bool:
        return not subprocess.run(["pgrep", "-f", f"gun {tmp_path}; sleep 61$"], capture_output=True).returncode

    def output(data: bytes) -> None:
        if b"begun" in data:
            assert running()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.build_image(tmp_path, tag=TAG, platform="linux/amd64", args={}, output=output, network="host")
    eventually(lambda: not running(), "the step runs on")
