"""The recipes in builders/, built by a real engine: the images have the tools, and nothing that a build must not
have."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator

import pytest

from patchstack.engine.archive import Entry, pack
from patchstack.engine.docker.engine import ContainerEngine
from patchstack.engine.docker.images import base_image
from patchstack.engine.protocol import Image, Job, Limits
from patchstack.llama.client.zipapp import client_file
from patchstack.observe.client_image import PROBE, SCRIPT
from tests.support.checkout import ROOT
from tests.support.engines import IMAGE, container_engine, needs_docker, ran, raw_api, shell, volume_of

BUILDERS = ROOT / "builders"
COMPILING = ("cpu", "cuda")
RECIPES = (*COMPILING, "client")


@pytest.fixture(scope="module")
def engine() -> Iterator[ContainerEngine]:
    engine = container_engine()
    yield engine
    engine.close()


@pytest.fixture(scope="module", params=RECIPES)
def image(request: pytest.FixtureRequest, engine: ContainerEngine) -> Iterator[Image]:
    """Build the image of a recipe on the tests' base, and remove it afterwards."""
    tag = f"patchstack-test-{request.param}-{uuid.uuid4().hex}:latest"
    said = bytearray()
    platform = engine.about().platform
    yield engine.build_image(
        BUILDERS / request.param, tag=tag, platform=platform, args={"BASE": IMAGE}, output=said.extend, network="host"
    )
    with raw_api() as api:
        api.remove_image(tag, force=True)


@needs_docker
@pytest.mark.parametrize("image", COMPILING, indirect=True)
def test_every_tool_that_a_build_needs_is_there(engine: ContainerEngine, image: Image) -> None:
    script = "for tool in c++ cmake ninja ccache git; do $tool --version >/dev/null || echo no $tool; done"
    outcome, said = ran(engine, shell(script, image=image.digest))
    assert (outcome.code, said) == (0, "")


@needs_docker
@pytest.mark.parametrize("image", COMPILING, indirect=True)
def test_no_build_finds_python(engine: ContainerEngine, image: Image) -> None:
    assert ran(engine, shell("command -v python3 || echo none", image=image.digest))[1] == "none\n"


@needs_docker
@pytest.mark.parametrize("image", ["client"], indirect=True)
def test_the_image_of_the_client_runs_it_and_compiles_nothing(engine: ContainerEngine, image: Image) -> None:
    """The image has all modules that the client imports."""
    with volume_of(engine) as volume:
        engine.put(volume.name, pack([Entry(path="client.pyz", data=client_file())]), image=image.digest)
        script = "cd /v; python3 -I -S client.pyz no-plan no-record; python3 -I -S client.pyz ask no-plan no-record"
        outcome, said = ran(engine, shell(script, image=image.digest, volumes=(volume,)))
    assert outcome.code == 2
    assert said.count("failed a file cannot be read or written: [Errno 2] No such file or directory: 'no-plan'") == 2
    # Modules that it imports later are checked in the same way as patchstack checks any image.
    asking = Job(what="look", argv=("sh", "-c", SCRIPT, PROBE), image=image.digest)
    assert ran(engine, asking)[0].ok


@needs_docker
def test_jobs_are_user_1000_in_a_root_that_nobody_writes_to(engine: ContainerEngine, image: Image) -> None:
    script = "id -u; id -un; cd; pwd; for place in / /usr /home /var/tmp; do touch $place/x 2>&1; done"
    _, said = ran(engine, shell(script, image=image.digest))
    user, name, home, *refused = said.splitlines()
    assert (user, home) == ("1000", "/tmp")  # noqa: S108
    assert name
    assert len(refused) == 4
    assert all("Read-only file system" in line for line in refused)


@needs_docker
@pytest.mark.parametrize("image", COMPILING, indirect=True)
def test_a_program_is_configured_compiled_and_linked_with_ccache(engine: ContainerEngine, image: Image) -> None:
    script = """
    set -e
    mkdir s && cd s
    echo 'int main() { return 0; }' > main.cpp
    printf 'cmake_minimum_required(VERSION 3.18)\\nproject(p CXX)\\nadd_executable(p main.cpp)\\n' > CMakeLists.txt
    CCACHE_DIR=/tmp/ccache cmake -S . -B b -G Ninja -DCMAKE_CXX_COMPILER_LAUNCHER=ccache || exit 8
    CCACHE_DIR=/tmp/ccache cmake --build b
    """
    outcome, said = ran(engine, shell(script, image=image.digest, workdir="/tmp", limits=Limits(seconds=120)))  # noqa: S108
    # /tmp runs no programs: CMake's own test of the compiler only compiles and links there.
    assert (outcome.code, said.splitlines()[-1]) == (0, "[2/2] Linking CXX executable p")


@needs_docker
def test_the_image_says_what_it_is_based_on_and_starts_nothing_of_its_own(image: Image) -> None:
    assert image.labels["patchstack.base"] == IMAGE
    assert image.labels["patchstack.recipe"] in RECIPES
    assert image.labels["org.opencontainers.image.title"] == f"patchstack/{image.labels['patchstack.recipe']}"
    with raw_api() as api:
        config = api.inspect_image(image.digest)["Config"]
    assert config["User"] == "1000:1000"
    assert not config.get("Entrypoint")
    assert "HOME=/tmp" in config["Env"]


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_base_of_a_recipe_is_pinned_by_tag_and_digest(recipe: str) -> None:
    named = base_image((BUILDERS / recipe / "Dockerfile").read_text(), {})
    assert named is not None
    assert re.fullmatch(r"docker\.io/[\w/-]+:[\w.-]+@sha256:[0-9a-f]{64}", named)


def test_the_cuda_base_knows_every_architecture_there_is_a_variant_for() -> None:
    from patchstack.builds.inputs.arch import parse_arch

    named = base_image((BUILDERS / "cuda" / "Dockerfile").read_text(), {}) or ""
    version = re.search(r"cuda:(\d+)\.(\d+)", named)
    assert version is not None
    wanted = re.findall(r"^    arch: (\S+)$", (BUILDERS / "variants.yaml").read_text(), re.MULTILINE)
    assert len(wanted) >= 4
    for arch in wanted:
        assert parse_arch(arch).since <= (int(version[1]), int(version[2])), arch


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_reaches_the_network_through_apt_alone(recipe: str) -> None:
    text = (BUILDERS / recipe / "Dockerfile").read_text()
    steps = " ".join(line for line in text.splitlines() if not line.startswith("#"))
    assert "apt-get install" in steps
    assert not re.search(r"\b(?:ADD|curl|wget|git clone|pip|https?)\b", steps)
