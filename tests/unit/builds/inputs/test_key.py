"""The build key: what changes it, and what does not."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from patchstack.builds.inputs.key import Toolchain, build_key
from patchstack.builds.inputs.plan import Request, make_plan
from patchstack.builds.inputs.source import Source
from patchstack.builds.inputs.toolchain import toolkit_place
from patchstack.builds.inputs.variant import Setting, load_variants
from patchstack.builds.run.recipe import Layout, ccache_rate, configure_command, environment
from patchstack.git.objects import Objects
from tests.unit.builds.inputs.test_plan import a_plan, an_engine

TREE = "dedb1182910eafe9f6875588dc8285bfb544cce5"
TOOLCHAIN = Toolchain(digest="sha256:" + "a" * 64, versions={"c++": "12.2.0"})
LAYOUT = Layout(source="/w/src", build="/w/build", out="/w/out", ccache="/c")

OPTIONAL: Setting[tuple[str, ...]] = Setting(value=("test-trace",), origin="patchstack.yaml: own")


def a_source(tree: str = TREE, absent: tuple[str, ...] = ()) -> Source:
    return Source(label="paged, 54 patches", tree=tree, objects=Objects(), absent=absent)


PLAN = a_plan(Request(arch="121"))
KEY = build_key(a_source(), PLAN, TOOLCHAIN).hex


@pytest.mark.parametrize(
    "other",
    [
        build_key(a_source("0" * 40), PLAN, TOOLCHAIN),
        build_key(a_source(absent=("models/vocab.gguf",)), PLAN, TOOLCHAIN),
        build_key(a_source(), a_plan(Request(arch="120")), TOOLCHAIN),
        build_key(a_source(), a_plan(Request(arch="121"), engine=an_engine("linux/arm64")), TOOLCHAIN),
        build_key(a_source(), a_plan(Request(arch="121", cmake=(("X", "1"),))), TOOLCHAIN),
        build_key(a_source(), a_plan(Request(arch="121", compile=(("X", "1"),))), TOOLCHAIN),
        build_key(a_source(), a_plan(Request(arch="121", targets=("llama-server",))), TOOLCHAIN),
        build_key(a_source(), replace(PLAN, optional_targets=OPTIONAL), TOOLCHAIN),
        build_key(a_source(), PLAN, replace(TOOLCHAIN, digest="sha256:" + "b" * 64)),
    ],
)
def test_every_input_of_the_binaries_changes_the_key(other: object) -> None:
    assert getattr(other, "hex", None) not in (None, KEY)


@pytest.mark.parametrize(
    "same",
    [
        build_key(replace(a_source(), label="another name", verdict="holds"), PLAN, TOOLCHAIN),
        build_key(a_source(), a_plan(Request(variant="cuda-sm121", jobs=3, memory=8 << 30, seconds=60)), TOOLCHAIN),
        build_key(a_source(), a_plan(Request(arch="121", ccache=False)), TOOLCHAIN),
        build_key(a_source(), replace(PLAN, optional_targets=None), TOOLCHAIN),
        build_key(a_source(), replace(PLAN, variant="renamed"), replace(TOOLCHAIN, versions={})),
        build_key(a_source(), PLAN, TOOLCHAIN, "some processor"),
        build_key(a_source(), a_plan(Request(arch="121"), engine=an_engine(isolated=False)), TOOLCHAIN),
    ],
)
def test_what_changes_no_byte_of_them_does_not(same: object) -> None:
    assert getattr(same, "hex", None) == KEY


def test_native_code_has_the_processor_in_its_key() -> None:
    plan = a_plan(Request(variant="cpu", cmake=(("GGML_NATIVE", "ON"),)))
    assert build_key(a_source(), plan, TOOLCHAIN, "one").hex != build_key(a_source(), plan, TOOLCHAIN, "other").hex


def test_the_order_and_number_of_targets_do_not_matter() -> None:
    one = a_plan(Request(variant="cpu", targets=("a", "b")))
    other = a_plan(Request(variant="cpu", targets=("b", "a", "a")))
    assert build_key(a_source(), one, TOOLCHAIN) == build_key(a_source(), other, TOOLCHAIN)


def test_the_key_is_carried_into_the_binaries_and_is_no_part_of_itself() -> None:
    script = configure_command(PLAN, LAYOUT, KEY)[2]
    assert f"-DLLAMA_BUILD_COMMIT={KEY}" in script
    assert KEY not in str(build_key(a_source(), PLAN, TOOLCHAIN).inputs)


def test_the_configure_command_has_all_three_launchers_the_real_architecture_and_no_path_of_the_machine() -> None:
    script = configure_command(a_plan(Request(arch="121", compile=(("KNOB", "64"),))), LAYOUT, KEY)[2]
    for language in ("C", "CXX", "CUDA"):
        assert f"-DCMAKE_{language}_COMPILER_LAUNCHER=ccache" in script
    assert "-DCMAKE_CUDA_ARCHITECTURES=121a-real" in script
    assert "'-DCMAKE_CXX_FLAGS=-ffile-prefix-map=/w/src=. -ffile-prefix-map=/w/build=. -DKNOB=64'" in script
    assert "-Xcompiler=-ffile-prefix-map=/w/src=." in script
    assert script.count("-DKNOB=64") == 3


def test_without_cuda_and_ccache_neither_is_spoken_of() -> None:
    plan = make_plan(Request(variant="cpu", ccache=False), load_variants(), an_engine())
    script = configure_command(plan, LAYOUT, KEY)[2]
    assert "CUDA" not in script
    assert "LAUNCHER" not in script
    assert not [name for name in environment(plan, LAYOUT) if name.startswith("CCACHE")]


def test_flags_of_the_variant_stay_in_front_of_ours() -> None:
    plan = a_plan(Request(variant="cpu", cmake=(("CMAKE_CXX_FLAGS", "-O1 -g"),)))
    assert "'-DCMAKE_CXX_FLAGS=-O1 -g -ffile-prefix-map=" in configure_command(plan, LAYOUT, KEY)[2]


def test_a_toolkit_of_the_engine_names_its_own_nvcc() -> None:
    plan = replace(PLAN, toolkit=Setting(value="/opt/cuda-13.0", origin="--toolkit"))
    assert toolkit_place(plan) == "/usr/local/cuda"
    on_host = replace(plan, engine=an_engine(isolated=False))
    assert toolkit_place(on_host) == "/opt/cuda-13.0"
    assert toolkit_place(replace(plan, arch=None)) is None
    layout = replace(LAYOUT, toolkit=toolkit_place(plan))
    assert environment(plan, layout)["CUDACXX"] == "/usr/local/cuda/bin/nvcc"
    assert "-DCUDAToolkit_ROOT=/usr/local/cuda" in configure_command(plan, layout, KEY)[2]


def test_ccache_hits_are_counted_a_file_once() -> None:
    log = b"# a.c\ncache_miss\ndirect_cache_miss\npreprocessed_cache_miss\n# b.c\ndirect_cache_hit\nlocal_storage_hit\n"
    log += b"# c.cu\ndirect_cache_miss\npreprocessed_cache_hit\n# CMakeTmp\ncalled_for_link\n"
    assert ccache_rate(log) == {"hits": 2, "misses": 1}
    assert ccache_rate(b"") == {"hits": 0, "misses": 0}


def test_a_path_with_blanks_stays_one_word_on_its_way_to_each_compiler() -> None:
    """A shell reads the flags in the build's own commands, and nvcc gives its host compiler's to a second one. CMake
    would take single quotes off the ends."""
    layout = replace(LAYOUT, source='/a "b" c/src', build="/w/build")
    script = configure_command(a_plan(Request(arch="121")), layout, KEY)[2]
    words = dict(word.split("=", 1) for word in shlex.split(script[script.index("exec ") :]) if word.startswith("-DCM"))
    flag = f"-ffile-prefix-map={layout.source}=."
    host, device = words["-DCMAKE_CXX_FLAGS"], words["-DCMAKE_CUDA_FLAGS"]
    assert not host.startswith("'") and not host.endswith("'")
    assert shlex.split(host)[0] == flag
    (passed,) = [word for word in shlex.split(device) if word.startswith("-Xcompiler=") and "src" in word]
    assert shlex.split(passed.removeprefix("-Xcompiler=")) == [flag]
