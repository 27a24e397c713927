"""The proofs of a build together: a valid build, and each way in which a proof fails."""

from __future__ import annotations

import os
import platform as this
from collections.abc import Callable
from pathlib import Path

import pytest

from patchstack.builds.proofs.prove import BIN, Claim, Proof, prove_build, run_here
from patchstack.errors import MissingError
from patchstack.verdict import Verdict
from tests.support.checkout import ROOT
from tests.support.compiled import (
    AARCH64,
    KEY,
    OTHER_KEY,
    X86_64,
    claim,
    compile_c,
    for_machine,
    good_build,
    library,
    program,
)

needs_amd64 = pytest.mark.skipif(this.machine() != "x86_64", reason="this machine runs no linux/amd64 programs")
PASS, FAIL, INVALID = Verdict.PASS, Verdict.FAIL, Verdict.INVALID


def proofs(directory: Path, asked: Claim | None = None, **more: object) -> dict[str, Proof]:
    """Return the proofs, by id, of programs that are not run."""
    given = {"cuobjdump": None, "run": None, **more}
    return {proof.id: proof for proof in prove_build(directory, asked or claim(), **given)}  # type: ignore[arg-type]


def test_a_good_build_holds_in_everything(tmp_path: Path) -> None:
    path = good_build(tmp_path)
    found = prove_build(path, claim(), cuobjdump=None, run=None, not_run="cannot run here: no emulator")
    size = (tmp_path / BIN / "tool").stat().st_size / 1e6
    assert [(proof.id, proof.verdict, proof.detail) for proof in found] == [
        ("exists", PASS, f"tool; {size:.1f} MB in all"),
        ("machine", PASS, "1 ELF file for x86-64"),
        ("runs", INVALID, "cannot run here: no emulator"),
        ("commit", PASS, f"{KEY} is in tool"),
        ("cuda-arch", PASS, "a build without CUDA, and without device code"),
        ("paths", PASS, f"none of {ROOT} in 1 file"),
    ]


@needs_amd64
def test_where_it_can_be_run_it_says_which_build_it_is(tmp_path: Path) -> None:
    found = proofs(good_build(tmp_path), run=run_here)
    assert (found["runs"].verdict, found["runs"].detail) == (PASS, "tool printed the build key")
    assert found["commit"].detail == f"{KEY} is in tool, printed by tool"


@needs_amd64
def test_the_key_may_live_in_a_library(tmp_path: Path) -> None:
    source = f'const char *commit(void) {{ return "{KEY}"; }}'
    lib = library(tmp_path / BIN / "libcommon.so", source=source)
    compile_c(
        '#include <stdio.h>\nconst char *commit(void); int main(void) { printf("version: 1 (%s)\\n", commit()); }',
        tmp_path / BIN / "tool",
        str(lib),
        "-Wl,-rpath,$ORIGIN",
    )
    found = proofs(tmp_path, run=run_here)
    assert found["commit"].detail == f"{KEY} is in libcommon.so, printed by tool"
    assert found["paths"].verdict is PASS
    assert {proof.verdict for proof in found.values()} == {PASS}


@needs_amd64
def test_a_program_of_another_build_fails_beside_one_of_this(tmp_path: Path) -> None:
    good_build(tmp_path)
    compile_c(program(f'puts("version: 1 ({OTHER_KEY})");'), tmp_path / BIN / "stale")
    found = proofs(tmp_path, claim(targets=("tool", "stale")), run=run_here)["commit"]
    assert found.verdict is FAIL
    assert found.detail == f"the build key is {KEY}, but stale printed 'version: 1 ({OTHER_KEY})'"


def test_a_build_without_the_key_fails(tmp_path: Path) -> None:
    compile_c(program('puts("version: unknown");'), tmp_path / BIN / "tool")
    found = proofs(tmp_path)["commit"]
    assert (found.verdict, found.detail) == (FAIL, f"no binary contains the build key {KEY}")


def test_the_key_in_a_text_file_is_no_proof(tmp_path: Path) -> None:
    compile_c(program('puts("x");'), tmp_path / BIN / "tool")
    (tmp_path / BIN / "build-info.txt").write_text(KEY)
    found = proofs(tmp_path)
    assert found["commit"].verdict is FAIL
    assert found["machine"].detail == "1 ELF file for x86-64; no ELF: build-info.txt"


def test_an_empty_build_proves_nothing(tmp_path: Path) -> None:
    (tmp_path / BIN).mkdir()
    found = proofs(tmp_path)
    assert [(proof.id, proof.verdict) for proof in found.values() if proof.verdict is not INVALID] == [("exists", FAIL)]
    assert found["exists"].detail == "the build left no binary"
    assert {proof.verdict for proof in proofs(tmp_path, claim(architectures=("121a",))).values()} == {FAIL, INVALID}


def test_no_build_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="none is not a directory, so it contains no build to prove"):
        proofs(tmp_path / "none")


def test_no_target_named_is_not_judged(tmp_path: Path) -> None:
    found = proofs(good_build(tmp_path), claim(targets=()))["exists"]
    assert (found.verdict, found.detail) == (INVALID, "no target was named, so nothing was required")


def test_every_target_that_is_none_is_told(tmp_path: Path) -> None:
    good_build(tmp_path)
    bin_ = tmp_path / BIN
    library(bin_ / "lib")
    (bin_ / "empty").touch()
    (bin_ / "script").write_text("#!/bin/sh\n")
    (bin_ / "cut").write_bytes((bin_ / "tool").read_bytes()[:500])
    compile_c(program(), bin_ / "plain").chmod(0o644)
    (bin_ / "alias").symlink_to("tool")
    (bin_ / "broken").symlink_to("nothing")
    targets = ("tool", "alias", "gone", "lib", "empty", "script", "cut", "plain", "broken")
    found = proofs(tmp_path, claim(targets=targets))["exists"]
    assert found.verdict is FAIL
    assert found.detail.split("; ") == [
        "broken is a link that leads to no file of the build",
        "gone is missing",
        "lib is a library, not a program",
        "empty is empty",
        "script is not an ELF file",
        "cut is truncated: a header table is beyond its end",
        "plain is not executable",
        "broken is missing",
    ]


def test_an_aarch64_build_is_one(tmp_path: Path) -> None:
    for_machine(good_build(tmp_path) / BIN / "tool", AARCH64)
    found = proofs(tmp_path, claim(platform="linux/arm64"), run=run_here)
    assert (found["machine"].verdict, found["machine"].detail) == (PASS, "1 ELF file for aarch64")


@pytest.mark.parametrize(
    ("platform", "machine", "detail"),
    [
        ("linux/arm64", X86_64, "linux/arm64 is aarch64, 64-bit; tool is for x86-64, 64-bit"),
        ("linux/arm64/v8", X86_64, "linux/arm64/v8 is aarch64, 64-bit; tool is for x86-64, 64-bit"),
        ("linux/amd64", AARCH64, "linux/amd64 is x86-64, 64-bit; tool is for aarch64, 64-bit"),
        ("linux/amd64", 4711, "linux/amd64 is x86-64, 64-bit; tool is for machine 4711, 64-bit"),
    ],
)
def test_another_machines_program_fails(tmp_path: Path, platform: str, machine: int, detail: str) -> None:
    for_machine(good_build(tmp_path) / BIN / "tool", machine)
    found = proofs(tmp_path, claim(platform=platform), run=run_here)
    assert (found["machine"].verdict, found["machine"].detail) == (FAIL, detail)
    assert (found["runs"].verdict, found["runs"].detail) == (INVALID, "no program could be started")


def test_one_wrong_library_among_right_ones_fails(tmp_path: Path) -> None:
    good_build(tmp_path)
    for_machine(library(tmp_path / BIN / "liba.so"), AARCH64)
    (tmp_path / BIN / "libb.so.1").write_bytes(os.urandom(500))
    assert proofs(tmp_path)["machine"].detail == (
        "linux/amd64 is x86-64, 64-bit; liba.so is for aarch64, 64-bit; libb.so.1 is not an ELF file"
    )


def test_a_platform_we_know_no_machine_of_is_not_judged(tmp_path: Path) -> None:
    found = proofs(good_build(tmp_path), claim(platform="linux/s390x"))["machine"]
    assert (found.verdict, found.detail) == (INVALID, "the ELF machine of linux/s390x is unknown")


def test_a_path_of_the_build_machine_inside_fails_with_its_surroundings(tmp_path: Path) -> None:
    compile_c(program('puts("assert in /home/me/src/ggml.c");'), tmp_path / BIN / "tool")
    found = proofs(tmp_path, claim(machine_paths=("/home/me/src/", "/home/you")))["paths"]
    assert found.verdict is FAIL
    assert found.detail == "tool names /home/me/src: 'assert in /home/me/src/ggml.c'"


def test_debug_information_is_searched_too(tmp_path: Path) -> None:
    compile_c(program(), tmp_path / BIN / "tool", "-g", f"-fdebug-prefix-map={Path.cwd()}=/home/me/build")
    assert proofs(tmp_path, claim(machine_paths=("/home/me",)))["paths"].verdict is FAIL


@pytest.mark.parametrize(
    ("rpath", "allowed", "looked_in"),
    [
        ("$ORIGIN", (), None),
        ("$ORIGIN/../lib:${ORIGIN}", (), None),
        ("/usr/local/cuda/lib64", ("/usr/local/cuda/lib64/",), None),
        ("/usr/local/cuda/lib64", (), "/usr/local/cuda/lib64"),
        ("$ORIGIN:/build/bin", (), "/build/bin"),
        ("$ORIGINAL", (), "$ORIGINAL"),
        ("$ORIGIN::", (), "the working directory"),
    ],
)
def test_libraries_are_looked_for_beside_the_binary_alone(
    tmp_path: Path, rpath: str, allowed: tuple[str, ...], looked_in: str | None
) -> None:
    compile_c(program(), tmp_path / BIN / "tool", f"-Wl,-rpath,{rpath}")
    found = proofs(tmp_path, claim(search_paths=allowed))["paths"]
    if looked_in is None:
        assert found.verdict is PASS
    else:
        assert found.verdict is FAIL
        assert found.detail.startswith(f"tool searches for libraries in {looked_in} (RPATH or RUNPATH)")


@pytest.mark.parametrize("paths", [(), ("/",), ("",)])
def test_no_path_to_look_for_is_not_judged(tmp_path: Path, paths: tuple[str, ...]) -> None:
    found = proofs(good_build(tmp_path), claim(machine_paths=paths))["paths"]
    assert (found.verdict, found.detail) == (INVALID, "no path of the build machine was given")


@pytest.mark.parametrize("section", [".nv_fatbin", "__nv_relfatbin", ".nvFatBinSegment"])
def test_device_code_in_a_build_without_cuda_fails(tmp_path: Path, section: str) -> None:
    good_build(tmp_path)
    library(tmp_path / BIN / "libgpu.so", source=f'__attribute__((section("{section}"), used)) int code[9] = {{1}};')
    found = proofs(tmp_path)["cuda-arch"]
    assert (found.verdict, found.detail) == (FAIL, "a build without CUDA, but device code is in libgpu.so")


def without_section_table(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[0x28:0x30], content[0x3C:0x40] = bytes(8), bytes(4)
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:2000])


@pytest.mark.parametrize("damage", [without_section_table, cut])
def test_where_sections_cannot_be_read_device_code_is_not_judged(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    good_build(tmp_path)
    damage(library(tmp_path / BIN / "liba.so"))
    found = proofs(tmp_path)["cuda-arch"]
    assert found.verdict is INVALID
    assert found.detail.startswith("liba.so may have device code")


def test_names_that_do_not_print_are_escaped(tmp_path: Path) -> None:
    good_build(tmp_path)
    (tmp_path / BIN / os.fsdecode(b"lib\x1b[31m\n\xff.so")).write_bytes(b"x")
    assert proofs(tmp_path)["machine"].detail.endswith(r"; lib\x1b[31m\n\udcff.so is not an ELF file")


@pytest.mark.parametrize("key", ["", "0" * 40, "0" * 63, "G" * 64, "0" * 64 + "\n"])
def test_a_claim_needs_a_build_key(key: str) -> None:
    with pytest.raises(ValueError, match="not a build key"):
        claim(key=key)
