"""The files of a build in the key of an observation: those that a program may load, and no others."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from patchstack.observe.loaded import LoadedFiles

KEY = "0123456789abcdef" * 4


def compiled(directory: Path, name: str, source: str, *options: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    text = directory.parent / f"{name}.c"
    text.write_text(source)
    subprocess.run(
        ["cc", "-O1", "-o", name, str(text), *options, "-Wl,-rpath,$ORIGIN", "-Wl,--build-id"],
        cwd=directory,
        check=True,
    )


def library(directory: Path, name: str, source: str, *options: str) -> None:
    compiled(directory, name, source, "-shared", "-fPIC", f"-Wl,-soname,{name}", *options)


@pytest.fixture
def build(tmp_path: Path) -> Path:
    """Build two programs: one loads base and top, the other base alone. A backend and an orphan are loaded at run
    time."""
    bin_ = tmp_path / "bin"
    library(bin_, "libbase.so.1", f'const char * key = "{KEY}"; int base(void) {{ return key[0]; }}\n')
    (bin_ / "libbase.so").symlink_to("libbase.so.1")
    library(bin_, "libtop.so", "int base(void); int top(void) { return base(); }\n", "-L.", "-l:libbase.so.1")
    library(bin_, "libggml-cuda.so", "int cuda(void) { return 1; }\n")
    compiled(bin_, "server", "int top(void); int main(void) { return top(); }\n", "-L.", "-ltop", "-l:libbase.so.1")
    compiled(bin_, "ops", "int base(void); int main(void) { return base(); }\n", "-L.", "-l:libbase.so.1")
    return bin_


def files(build: Path, program: str, *stamps: str) -> dict[str, str]:
    return LoadedFiles(build, [path.name for path in build.iterdir()], stamps).by(program)


def test_a_program_counts_with_the_libraries_it_needs_and_with_backends(build: Path) -> None:
    assert set(files(build, "ops")) == {"ops", "libbase.so.1", "libggml-cuda.so"}
    assert set(files(build, "server")) == {"server", "libtop.so", "libbase.so.1", "libggml-cuda.so"}


def test_a_library_that_no_file_names_counts(build: Path) -> None:
    library(build, "libplugin.so", "int plugin(void) { return 2; }\n")
    assert "libplugin.so" in files(build, "ops")


def test_a_library_whose_name_is_in_the_program_counts(build: Path) -> None:
    source = 'int base(void); const char * name = "libtop.so"; int main(void) { return base() + name[0]; }\n'
    compiled(build, "ops", source, "-L.", "-l:libbase.so.1")
    assert "libtop.so" in files(build, "ops")


def test_a_file_that_is_no_program_and_no_library_counts(build: Path) -> None:
    (build / "shaders.metal").write_text("kernel\n")
    assert "shaders.metal" in files(build, "ops")


def test_of_a_script_every_file_counts(build: Path) -> None:
    (build / "smoke").write_text("#!/bin/sh\n./server\n")
    assert set(files(build, "smoke")) == {path.name for path in build.iterdir()}


def test_a_damaged_program_counts_with_every_file(build: Path) -> None:
    (build / "ops").write_bytes((build / "ops").read_bytes()[:200])
    assert set(files(build, "ops")) == {path.name for path in build.iterdir()}


def test_what_a_program_cannot_load_does_not_change_its_files(build: Path) -> None:
    before, server = files(build, "ops"), files(build, "server")
    library(build, "libtop.so", "int base(void); int top(void) { return base() + 1; }\n", "-L.", "-l:libbase.so.1")
    assert files(build, "ops") == before
    assert files(build, "server") != server


def test_what_it_loads_changes_them(build: Path) -> None:
    before = files(build, "ops")
    library(build, "libbase.so.1", f'const char * key = "{KEY}"; int base(void) {{ return key[1]; }}\n')
    assert files(build, "ops") != before


def test_the_build_s_own_key_does_not_change_them(build: Path) -> None:
    before = files(build, "ops", KEY)
    other = KEY[::-1]
    library(build, "libbase.so.1", f'const char * key = "{other}"; int base(void) {{ return key[0]; }}\n')
    assert files(build, "ops", other) == before
    assert files(build, "ops", KEY) != before, "another key is not masked"
    assert files(build, "ops") != before
