"""A request becomes a plan: variants override each other, and each option has an origin."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchstack.builds.inputs.arch import parse_arch
from patchstack.builds.inputs.plan import Plan, Request, make_plan, parse_definitions
from patchstack.builds.inputs.variant import Setting, Variants, builders_directory, load_variants
from patchstack.engine.protocol import About, PlatformUnsupported
from patchstack.errors import ConfigError, UsageError
from patchstack.workspace import VariantConfig, read_variants_file

GIB = 1 << 30


def an_engine(platform: str = "linux/amd64", *, local: bool = True, isolated: bool = True, memory: int = 32) -> About:
    return About(
        spec="docker",
        kind="docker" if isolated else "host",
        endpoint="unix:///var/run/docker.sock",
        version="28.0",
        platform=platform,
        cpus=16,
        memory=memory * GIB,
        local=local,
        isolated=isolated,
    )


def a_plan(request: Request, own: tuple[VariantConfig, ...] = (), engine: About | None = None) -> Plan:
    return make_plan(request, load_variants(own), engine or an_engine())


def test_arch_121_is_the_gb10_variant_with_machine_code_for_fp4() -> None:
    plan = a_plan(Request(arch="121"), engine=an_engine("linux/arm64"))
    assert plan.variant == "cuda-sm121"
    assert plan.arch is not None
    assert plan.arch.cmake == "121a-real"
    assert plan.platform == Setting(value="linux/arm64", origin="variants.yaml: cuda-sm121")
    assert plan.cmake["GGML_CUDA"] == Setting(value="ON", origin="variants.yaml: cuda")
    assert plan.cmake["LLAMA_BUILD_UI"].value == "OFF"
    assert plan.notes == ()


def test_on_an_x86_engine_arch_121_says_that_it_will_not_run_on_gb10_and_where_it_would() -> None:
    plan = a_plan(Request(arch="121"))
    assert plan.platform == Setting(value="linux/amd64", origin="the engine's")
    (note,) = plan.notes
    assert "cuda-sm121 (GB10, DGX Spark) is for linux/arm64; this engine builds for linux/amd64" in note
    assert "the code compiles. The binaries will not run on the target machine" in note
    assert "DOCKER_HOST=ssh://user@host" in note


def test_a_platform_that_the_engine_is_not_is_refused() -> None:
    with pytest.raises(PlatformUnsupported) as error:
        a_plan(Request(arch="121", platform="linux/arm64"))
    assert error.value.message == "docker runs linux/amd64, not linux/arm64"
    assert "a DGX Spark or another arm64 machine" in (error.value.hint or "")


def test_an_architecture_without_a_variant_is_made_from_cuda() -> None:
    plan = a_plan(Request(arch="86"))
    assert plan.variant == "cuda-sm86"
    assert plan.arch is not None
    assert plan.arch.cmake == "86-real"
    assert plan.cmake["GGML_CUDA"].value == "ON"


def test_a_workspace_changes_what_it_names_and_keeps_the_rest() -> None:
    own = VariantConfig(
        name="cuda-sm121",
        origin="patchstack.yaml: cuda-sm121",
        cmake=(("GGML_CUDA_FA_ALL_QUANTS", "ON"), ("LLAMA_BUILD_UI", "ON")),
        compile=(("GGML_CUDA_FP4_MINBLOCKS", "2"),),
        targets=("llama-server",),
    )
    plan = a_plan(Request(arch="121"), (own,))
    assert plan.targets == Setting(value=("llama-server",), origin="patchstack.yaml: cuda-sm121")
    assert plan.cmake["LLAMA_BUILD_UI"] == Setting(value="ON", origin="patchstack.yaml: cuda-sm121")
    assert plan.cmake["GGML_CUDA"].origin == "variants.yaml: cuda"
    assert plan.compile == {"GGML_CUDA_FP4_MINBLOCKS": Setting(value="2", origin="patchstack.yaml: cuda-sm121")}


def test_the_command_line_goes_before_the_workspace_and_says_so() -> None:
    own = VariantConfig(name="cpu", origin="patchstack.yaml: cpu", cmake=(("A", "1"),), memory=8 * GIB, jobs=3)
    request = Request(
        variant="cpu",
        cmake=(("A", "2"), ("B", "x y")),
        compile=(("K", "64"),),
        targets=("one",),
        memory=4 * GIB,
        jobs=5,
    )
    plan = a_plan(request, (own,))
    assert plan.cmake["A"] == Setting(value="2", origin="--define")
    assert plan.cmake["B"] == Setting(value="x y", origin="--define")
    assert plan.compile["K"] == Setting(value="64", origin="--compile-define")
    assert plan.targets == Setting(value=("one",), origin="--target")
    assert plan.memory == Setting(value=4 * GIB, origin="--memory")
    assert plan.jobs == Setting(value=5, origin="--jobs")


def test_jobs_are_as_many_as_fit_into_the_memory() -> None:
    assert a_plan(Request(variant="cpu")).jobs.value == 16
    small = a_plan(Request(arch="121", memory=7 * GIB))
    assert small.jobs == Setting(value=2, origin="as many as fit into memory")
    assert a_plan(Request(arch="121", memory=GIB)).jobs.value == 1
    assert a_plan(Request(variant="cpu", cpus=2.5)).jobs.value == 2


def test_the_memory_limit_leaves_the_engine_a_tenth_and_the_host_is_not_limited() -> None:
    assert a_plan(Request(variant="cpu")).memory == Setting(
        value=32 * GIB * 9 // 10, origin="nine tenths of the engine's"
    )
    host = a_plan(Request(variant="cpu"), engine=an_engine(isolated=False))
    assert host.memory == Setting(value=None, origin="not limited on the host")
    assert host.image is None


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (Request(), "no variant given"),
        (Request(variant="cuda-sm12"), "there is no variant cuda-sm12"),
        (Request(variant="cuda"), "there is no variant cuda"),
        (Request(variant="cpu", arch="121"), "variant cpu has no GPU code, but --arch 121 requests sm_121"),
        (Request(variant="cuda-sm90", arch="121"), "variant cuda-sm90 is for sm_90, but --arch 121 requests sm_121"),
        (
            Request(arch="121", cmake=(("CMAKE_CUDA_ARCHITECTURES", "90"),)),
            "these definitions cannot be given, because patchstack sets them",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(request_: Request, words: str) -> None:
    with pytest.raises(UsageError) as error:
        a_plan(request_)
    assert error.value.message == words
    assert error.value.hint or error.value.problems or "requests" in words


@pytest.mark.parametrize(
    "definition", [("GGML_NATIVE", "ON"), ("GGML_NATIVE", "1"), ("CMAKE_CXX_FLAGS", "-march=native")]
)
def test_native_code_is_refused_where_the_engine_is_another_machine(definition: tuple[str, str]) -> None:
    request = Request(variant="cpu", cmake=(definition,))
    with pytest.raises(UsageError, match="cannot build native code: the engine is on a different machine") as error:
        a_plan(request, engine=an_engine(local=False))
    assert definition[0] in error.value.problems[0]
    assert a_plan(request).native
    assert not a_plan(Request(variant="cpu")).native


@pytest.mark.parametrize(
    ("asked", "tools", "found"),
    [
        (None, ("cmake", "ccache"), Setting(value=True, origin="default")),
        (None, ("cmake",), Setting(value=False, origin="not installed")),
        (True, ("cmake",), Setting(value=True, origin="--ccache")),
        (False, ("cmake", "ccache"), Setting(value=False, origin="--no-ccache")),
    ],
)
def test_ccache_is_used_where_it_is_installed_unless_one_says_otherwise(
    asked: bool | None, tools: tuple[str, ...], found: Setting[bool]
) -> None:
    planned = make_plan(Request(variant="cpu", ccache=asked), load_variants(), an_engine()).with_tools(tools)
    assert planned.ccache == found
    assert planned.refuses_ccache == (asked is False)


@pytest.mark.parametrize(("isolated", "get"), [(True, "add ccache to the image"), (False, "apt install ccache")])
def test_a_build_without_ccache_says_in_one_line_what_ccache_brings(isolated: bool, get: str) -> None:
    def notes(asked: bool | None, *tools: str) -> tuple[str, ...]:
        request = Request(variant="cpu", ccache=asked)
        return make_plan(request, load_variants(), an_engine(isolated=isolated)).with_tools(tools).notes

    assert notes(None) == (
        f"ccache is not installed, so every build compiles all files, not only changed files ({get})",
    )
    assert notes(None, "ccache") == notes(False) == notes(True) == ()


def test_definitions_are_name_and_value_and_all_wrong_ones_are_named() -> None:
    assert parse_definitions(("A=1", "-DB=x=y", "C"), "--define") == (("A", "1"), ("B", "x=y"), ("C", "ON"))
    with pytest.raises(UsageError) as error:
        parse_definitions(("=1", "A B=2", "OK=1"), "--define")
    assert error.value.problems == (
        "--define =1: '' is not a valid name",
        "--define A B=2: 'A B' is not a valid name",
    )


def test_a_variant_that_extends_itself_or_nothing_is_refused() -> None:
    loop = (
        VariantConfig(name="a", origin="x: a", extends="b", targets=("t",)),
        VariantConfig(name="b", origin="x: b", extends="a"),
    )
    with pytest.raises(ConfigError, match="variant a extends itself") as error:
        Variants(loop, ()).get("a")
    assert error.value.problems == ("a extends b extends a",)
    with pytest.raises(ConfigError, match="x: a extends gone, which is not a variant"):
        Variants((VariantConfig(name="a", origin="x: a", extends="gone"),), ()).get("a")


def test_an_architecture_with_several_variants_asks_which() -> None:
    own = tuple(
        VariantConfig(name=name, origin=f"x: {name}", extends="cuda", arch="86-real") for name in ("mine", "yours")
    )
    with pytest.raises(UsageError) as error:
        load_variants(own).for_arch(parse_arch("86"))
    assert error.value.message == "sm_86 has several variants"
    assert error.value.hint == "use --variant with one of mine, yours"


def test_every_shipped_variant_can_be_planned() -> None:
    names = load_variants().names()
    assert names == ("cpu", "cuda-sm121", "cuda-sm120", "cuda-sm90", "cuda-sm89")
    for name in names:
        plan = a_plan(Request(variant=name))
        assert plan.targets.value
        assert plan.image is not None
        assert (builders_directory() / (plan.recipe or "")).is_dir()


def test_a_variants_file_with_mistakes_is_told_all_of_them_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "variants.yaml"
    path.write_text(
        "variants:\n"
        "  one:\n"
        "    arch: sm-huge\n"
        "    platform: windows/amd64\n"
        "    cmake: {A: [1]}\n"
        "    limits: {memory: lots, time: soon}\n"
        "    imaeg: x\n"
        "    optional_targets: [test-trace, '$(id)']\n"
    )
    with pytest.raises(ConfigError) as error:
        read_variants_file(path)
    said = "\n".join(error.value.problems)
    assert f"{path}:3: variants.one.arch: 'sm-huge' is not a CUDA architecture" in said
    assert f"{path}:4: variants.one.platform: 'windows/amd64' is not one of linux/amd64, linux/arm64" in said
    assert f"{path}:5: variants.one.cmake.A: a list is not a single value" in said
    assert f"{path}:6: variants.one.limits.memory: 'lots' is not a size" in said
    assert "'soon' is not a time" in said
    assert f"{path}:8: variants.one.optional_targets: '$(id)' is not the name of a CMake target" in said
    assert f"{path}:7: variants.one.imaeg: unknown key, perhaps you meant image" in said
