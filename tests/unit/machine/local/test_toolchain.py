"""Tools of this machine: which one is used, how it was found, and its version."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from patchstack.errors import MissingError
from patchstack.machine.local.toolchain import Tool, find_cuda_tool, find_nvcc, find_tool, read_version, toolkit_root

NVCC_SAYS = """nvcc: NVIDIA (R) Cuda compiler driver
Copyright (c) 2005-2025 NVIDIA Corporation
Built on Wed_Aug_20_01:58:59_PM_PDT_2025
Cuda compilation tools, release {release}, V{release}.88
Build cuda_{release}.r{release}/compiler.36424714_0
"""


def program(path: Path, says: str, code: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{says}\nEND\nexit {code}\n")
    path.chmod(0o755)
    return path


def toolkit(root: Path, release: str, name: str = "") -> Path:
    return program(root / (name or f"cuda-{release}") / "bin" / "nvcc", NVCC_SAYS.format(release=release))


def an_env(*directories: Path, **more: str) -> dict[str, str]:
    return {"PATH": os.pathsep.join([*map(str, directories), "/bin", "/usr/bin"]), **more}


@pytest.mark.parametrize(
    ("said", "version"),
    [
        (NVCC_SAYS.format(release="13.0"), "13.0.88"),
        ("Cuda compilation tools, release 12.9", "12.9"),
        ("c++ (Debian 12.2.0-14+deb12u1) 12.2.0\nCopyright (C) 2022", "12.2.0"),
        ("Ubuntu clang version 18.1.3 (1ubuntu1)\nTarget: x86_64", "18.1.3"),
        ("cmake version 3.28.3\n\nCMake suite maintained by Kitware", "3.28.3"),
        ("1.11.1\n", "1.11.1"),
        ("1.12.1.git.kitware.jobserver-1", "1.12.1"),
        ("ccache version 4.8+8~g3f5d14e3", "4.8"),
        ("git version 2.39.5 (Apple Git-154)", "2.39.5"),
        ("g++ (GCC) 15.1.1 20250425", "15.1.1"),
        ("(only 1.2 here)", "1.2"),
        ("no version at all", ""),
        ("", ""),
    ],
)
def test_versions_are_read_as_tools_print_them(said: str, version: str) -> None:
    assert read_version(said) == version


@pytest.mark.parametrize(
    ("version", "wanted", "holds"),
    [
        ("12.9.86", (12, 9), True),
        ("13.0.88", (12, 9), True),
        ("12.8.93", (12, 9), False),
        ("12.10", (12, 9), True),
        ("12", (12, 9), False),
        ("", (0,), False),
    ],
)
def test_a_version_is_compared_by_its_numbers(version: str, wanted: tuple[int, ...], holds: bool) -> None:
    assert Tool(name="x", path=Path("/x"), version=version, found_by="PATH").at_least(*wanted) is holds


def test_cudacxx_comes_before_path_before_the_toolkits(tmp_path: Path) -> None:
    roots = [tmp_path / "local"]
    newest = toolkit(roots[0], "13.0")
    toolkit(roots[0], "12.9")
    found = find_nvcc(an_env(tmp_path / "empty"), roots)
    assert found == Tool(name="nvcc", path=newest, version="13.0.88", found_by=str(newest.parent))
    chosen = toolkit(roots[0], "12.8", "cuda")
    assert find_nvcc(an_env(tmp_path / "empty"), roots) == Tool(
        name="nvcc", path=chosen, version="12.8.88", found_by=str(chosen.parent)
    )
    on_path = toolkit(tmp_path, "12.6", "bin-of-path")
    env = an_env(on_path.parent)
    assert find_nvcc(env, roots) == Tool(name="nvcc", path=on_path, version="12.6.88", found_by="PATH")
    named = toolkit(tmp_path / "opt", "13.1")
    found = find_nvcc({**env, "CUDACXX": str(named)}, roots)
    assert found == Tool(name="nvcc", path=named, version="13.1.88", found_by="CUDACXX")
    by_name = find_nvcc({**env, "CUDACXX": "nvcc"}, roots)
    assert by_name == Tool(name="nvcc", path=on_path, version="12.6.88", found_by="CUDACXX")


def test_newer_means_by_number_and_not_by_letter(tmp_path: Path) -> None:
    for release in ("9.2", "12.10", "12.9"):
        toolkit(tmp_path, release)
    (tmp_path / "cuda-samples" / "bin").mkdir(parents=True)
    found = find_nvcc(an_env(tmp_path / "empty"), [tmp_path])
    assert found is not None
    assert found.version == "12.10.88"


def test_a_cudacxx_that_names_nothing_is_said_so(tmp_path: Path) -> None:
    toolkit(tmp_path, "13.0")
    with pytest.raises(MissingError) as caught:
        find_nvcc(an_env(CUDACXX="/nowhere/nvcc"), [tmp_path])
    assert caught.value.render() == (
        "error: CUDACXX names /nowhere/nvcc, which cannot be run\n\n"
        "hint: unset CUDACXX, or set it to a toolkit's bin/nvcc"
    )


def test_without_any_toolkit_there_is_no_nvcc(tmp_path: Path) -> None:
    assert find_nvcc({"PATH": str(tmp_path)}, [tmp_path]) is None
    assert find_nvcc({"PATH": str(tmp_path)}, [tmp_path / "nowhere"]) is None
    assert find_nvcc({"PATH": "", "CUDACXX": " "}, []) is None


def test_what_is_there_but_does_not_start_is_not_there(tmp_path: Path) -> None:
    broken = tmp_path / "cuda" / "bin" / "nvcc"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"\x7fELF of another machine")
    broken.chmod(0o755)
    other = toolkit(tmp_path, "12.9")
    found = find_nvcc(an_env(tmp_path / "empty"), [tmp_path])
    assert found is not None
    assert found.path == other
    other.chmod(0o644)
    assert find_nvcc(an_env(tmp_path / "empty"), [tmp_path]) is None


def test_a_tool_that_tells_no_version_is_there_all_the_same(tmp_path: Path) -> None:
    program(tmp_path / "odd", "hello", code=3)
    assert find_tool("odd", an_env(tmp_path)) == Tool(name="odd", path=tmp_path / "odd", version="", found_by="PATH")
    assert find_tool("absent", an_env(tmp_path)) is None


def test_cuobjdump_is_found_beside_path_in_toolkits_and_in_wheels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = NVCC_SAYS.format(release="13.0")
    wheel = program(tmp_path / "site" / "nvidia" / "cu13" / "bin" / "cuobjdump", says)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path / "site")])
    env = an_env(tmp_path / "empty")
    found = find_cuda_tool("cuobjdump", env, [])
    assert found == Tool(name="cuobjdump", path=wheel, version="13.0.88", found_by="a Python package")
    below = program(tmp_path / "cuda" / "bin" / "cuobjdump", says)
    found = find_cuda_tool("cuobjdump", env, [tmp_path])
    assert found is not None
    assert (found.path, found.found_by) == (below, str(below.parent))
    home = program(tmp_path / "home" / "bin" / "cuobjdump", says)
    found = find_cuda_tool("cuobjdump", {**env, "CUDA_HOME": str(tmp_path / "home")}, [tmp_path])
    assert found is not None
    assert (found.path, found.found_by) == (home, "CUDA_HOME")


@pytest.mark.parametrize("name", ["git", "c++", "cmake", "ninja", "ccache"])
def test_real_tools_are_found_with_their_versions(name: str) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed here")
    found = find_tool(name, os.environ)
    assert found is not None
    assert found.at_least(1)
    assert found.path.is_absolute()


def test_a_real_nvcc_says_where_its_toolkit_is(tmp_path: Path) -> None:
    found = find_nvcc(os.environ)
    if found is None:
        pytest.skip("nvcc is not installed here")
    root = toolkit_root(found, os.environ)
    assert (root / "bin" / "nvcc").is_file()
    script = tmp_path / "nvcc"
    script.write_text(f'#!/bin/sh\nexec "{found.path}" "$@"\n')
    script.chmod(0o755)
    wrapped = find_nvcc(an_env(tmp_path))
    assert wrapped is not None
    assert wrapped.path == script
    assert toolkit_root(wrapped, os.environ) == root


def test_an_nvcc_that_does_not_say_where_its_toolkit_is_is_refused(tmp_path: Path) -> None:
    found = find_nvcc(an_env(toolkit(tmp_path, "13.0").parent), [])
    assert found is not None
    with pytest.raises(MissingError, match="does not report the path of its toolkit"):
        toolkit_root(found, an_env())
