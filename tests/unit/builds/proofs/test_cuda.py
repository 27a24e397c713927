"""Where cuobjdump is found, how its output is read, and the report if it is missing or fails.

The texts are output of versions 13.2 and 13.5, except for the older form of entries.
tests/integration/test_build_cuda_proofs.py runs the real program.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from patchstack.builds.proofs import device
from patchstack.builds.proofs.device import Undumped, count_fp4, find_cuobjdump, has_fp4_instructions, machine_code, ptx
from patchstack.builds.proofs.prove import BIN, OBJECTS, Proof, prove_build
from patchstack.errors import MissingError
from patchstack.process import Finished
from patchstack.verdict import Verdict
from tests.support.compiled import DEVICE_CODE, claim, good_build, library

NO_CODE = "cuobjdump info    : File '/b/tool' does not contain device code"
NO_PTX = "cuobjdump info    : No PTX file found to extract from '/b/tool'. You may try with -all option."
NO_DISASSEMBLER = (
    "cuobjdump fatal   : Could not find executable file 'nvdisasm'; you can try adding path to environment variables"
    " PATH or NVDISASM_PATH"
)
SASS = """
Fatbin elf code:
================
arch = sm_120a
code version = [1,8]

\tcode for sm_120a
        /*00c0*/                   HMMA.16816.F32.E2M1 R12, R8 ;
        /*00d0*/                   OMMA.SF.16864.F32.E4M3.E4M3 R12, R8 ;
\t\tFunction : OMMA_E2M1

Fatbin elf code:
================
arch = sm_121a
\tcode for sm_121a
        /*00d0*/                   OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X R12, R8, R12, RZ, R0, R15, URZ ;  /* 0x70f0 */
        /*01d0*/              @!P0 OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X R12, R8, R12, RZ, R0, R15, URZ ;  /* 0x70f0 */
"""


def prints(stdout: str = "", stderr: str = "", code: int = 0) -> device.Disassembler:
    """Return a cuobjdump that prints this for every file."""

    def dump(options: tuple[str, ...], file: Path) -> Finished:
        return Finished(
            args=("cuobjdump", *options, str(file)), code=code, stdout=stdout.encode(), stderr=stderr.encode()
        )

    return dump


@pytest.mark.parametrize(
    ("stdout", "stderr", "code", "found"),
    [
        ("ELF file    1: tool.1.sm_121a.cubin\n", "", 0, ("121a",)),
        ("ELF file    1: tool.1.sm_121a.cubin\nELF file    2: tool.2.sm_90.cubin\n", "", 0, ("121a", "90")),
        ("ELF file    1: tmpxft_000a1_00000000-6_mmq.sm_121a.cubin\n", "", 0, ("121a",)),
        ("ELF file   12: x.sm_90.so.12.sm_100f.cubin \n", "", 0, ("100f",)),
        ("", NO_CODE, 255, ()),
        ("", NO_CODE.replace("tool", "a"), 1, ()),
        ("", "cuobjdump info    : No ELF file found to extract from '/b/tool'.", 0, ()),
    ],
)
def test_machine_code_is_listed_by_architecture(stdout: str, stderr: str, code: int, found: tuple[str, ...]) -> None:
    assert machine_code(prints(stdout, stderr, code), Path("/b/tool")) == found


@pytest.mark.parametrize(
    ("stdout", "stderr", "found"),
    [
        ("", NO_PTX, ()),
        ("PTX file    1: tool.1.sm_90.ptx\n", "", ("sm_90",)),
        ("PTX file    1: tool.1.sm_121a.ptx\nPTX file    2: odd\n", "", ("sm_121a", "odd")),
    ],
)
def test_ptx_is_listed_by_architecture(stdout: str, stderr: str, found: tuple[str, ...]) -> None:
    assert ptx(prints(stdout, stderr), Path("/b/tool")) == found


@pytest.mark.parametrize(
    ("stdout", "stderr", "code", "words"),
    [
        (
            "ELF file    1: tool.cubin\n",
            "",
            0,
            "cuobjdump lists tool.cubin, which has an unknown architecture",
        ),
        (
            "",
            "cuobjdump fatal   : Invalid fatbin header in '/b/tool'",
            1,
            "cuobjdump --list-elf failed (exit 1): cuobjdump fatal   : Invalid fatbin header in '/b/tool'",
        ),
        ("", "", -9, "cuobjdump --list-elf failed (exit -9)"),
        ("code for sm_121a\n", NO_DISASSEMBLER, 1, "cuobjdump finds no nvdisasm"),
    ],
)
def test_what_cuobjdump_cannot_say_is_told(stdout: str, stderr: str, code: int, words: str) -> None:
    with pytest.raises(Undumped) as caught:
        machine_code(prints(stdout, stderr, code), Path("/b/tool"))
    assert caught.value.message == words


def test_a_file_whose_name_could_write_lines_of_its_own_is_not_listed() -> None:
    with pytest.raises(Undumped, match="has a name with unprintable characters"):
        machine_code(prints("ELF file    1: x.sm_121a.cubin\n"), Path("/b/a\nELF file    1: x.sm_121a.cubin"))


def test_fp4_instructions_are_counted_by_architecture_and_nothing_else_is() -> None:
    assert count_fp4(SASS.encode()) == {"121a": 2}


@pytest.mark.parametrize(
    ("architecture", "has"),
    [("121a", True), ("120a", True), ("120f", True), ("121", False), ("100a", False), ("103a", False), ("90", False)],
)
def test_fp4_is_omma_on_consumer_blackwell_alone(architecture: str, has: bool) -> None:
    assert has_fp4_instructions(architecture) is has


def of_cuda(directory: Path, dump: device.Disassembler | None, **more: object) -> dict[str, Proof]:
    """Return the proofs, by id, of a build for sm_121a with one library of device code."""
    good_build(directory)
    library(directory / BIN / "libgpu.so", source=DEVICE_CODE)
    asked = claim(**{"architectures": ("121a",), **more})
    return {proof.id: proof for proof in prove_build(directory, asked, cuobjdump=dump, run=None)}


def test_without_cuobjdump_it_is_not_judged_and_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / OBJECTS).mkdir()
    (tmp_path / OBJECTS / "mmq-instance-nvfp4.cu.o").write_bytes(b"x")
    found = of_cuda(tmp_path, None, fp4_sources=True)
    for name in ("cuda-arch", "cuda-ptx", "fp4"):
        assert found[name].verdict is Verdict.INVALID
        assert found[name].detail == "cuobjdump is not installed; hint: patchstack doctor says how to get it"


def test_device_code_that_cuobjdump_does_not_see_fails(tmp_path: Path) -> None:
    found = of_cuda(tmp_path, prints(stderr=NO_CODE, code=255))["cuda-arch"]
    assert found.verdict is Verdict.FAIL
    assert found.detail == (
        "requested sm_121a; libgpu.so has device code, but no machine code; no binary has machine code for sm_121a"
    )


def test_a_cuobjdump_that_fails_or_is_lost_leaves_it_unjudged(tmp_path: Path) -> None:
    def lost(options: tuple[str, ...], file: Path) -> Finished:
        raise MissingError("the engine went away", hint="start it")

    found = of_cuda(tmp_path, lost)
    assert (found["cuda-arch"].verdict, found["cuda-ptx"].verdict) == (Verdict.INVALID, Verdict.INVALID)
    assert found["cuda-arch"].detail == "libgpu.so: the engine went away; hint: start it"


def test_a_build_for_a_gpu_without_device_code_fails(tmp_path: Path) -> None:
    found = {
        proof.id: proof
        for proof in prove_build(good_build(tmp_path), claim(architectures=("121a",)), cuobjdump=None, run=None)
    }
    assert (found["cuda-arch"].verdict, found["cuda-arch"].detail) == (Verdict.FAIL, "no binary has device code")
    assert (found["cuda-ptx"].verdict, found["cuda-ptx"].detail) == (Verdict.INVALID, "no binary has device code")


def test_no_fp4_object_is_not_judged(tmp_path: Path) -> None:
    found = of_cuda(tmp_path, prints("ELF file    1: a.sm_121a.cubin\n"), fp4_sources=True)["fp4"]
    assert found.verdict is Verdict.INVALID
    assert found.detail == "objects has no object file with fp4 in its name, so none could be inspected"


@pytest.mark.parametrize(("architectures", "fp4_sources"), [(("121a",), False), (("100a", "90"), True)])
def test_where_fp4_instructions_cannot_be_there_is_no_proof_of_them(
    tmp_path: Path, architectures: tuple[str, ...], fp4_sources: bool
) -> None:
    assert "fp4" not in of_cuda(tmp_path, None, architectures=architectures, fp4_sources=fp4_sources)


def test_every_architecture_with_fp4_must_have_its_instructions(tmp_path: Path) -> None:
    (tmp_path / OBJECTS / "sub").mkdir(parents=True)
    (tmp_path / OBJECTS / "sub/mmq-instance-nvfp4.cu.o").write_bytes(b"x")
    (tmp_path / OBJECTS / "unrelated.cu.o").write_bytes(b"x")
    found = of_cuda(tmp_path, prints(SASS), architectures=("121a", "120a"), fp4_sources=True)["fp4"]
    assert found.verdict is Verdict.FAIL
    assert found.detail == "no FP4 instruction (OMMA…E2M1) for sm_120a in sub/mmq-instance-nvfp4.cu.o"


Tool = Callable[..., Path]


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tool:
    """Return a function that makes programs, on a machine without a toolkit."""
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(device, "TOOLKITS", (tmp_path / "local",))
    monkeypatch.setattr("sys.path", [str(tmp_path / "packages")])
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)

    def make(folder: str, name: str = "cuobjdump", *, executable: bool = True) -> Path:
        path = tmp_path / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('#!/bin/sh\necho "$PATH" "$@"\n')
        path.chmod(0o755 if executable else 0o644)
        return path

    return make


def test_where_there_is_none_none_is_found(tool: Tool) -> None:
    tool("path", executable=False)
    tool("path", "nvdisasm")
    assert find_cuobjdump() is None


def test_path_comes_before_the_environment_before_toolkits(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> Path:
        cuobjdump = find_cuobjdump()
        assert cuobjdump is not None
        return cuobjdump.program

    for folder in ("local/cuda-9.2/bin", "local/cuda-12.9/bin", "local/cuda-13.0/bin", "local/cuda/bin"):
        program = tool(folder)
        assert found() == program
    monkeypatch.setenv("CUDA_PATH", str(tool("home/bin").parent.parent))
    assert found() == tool("home/bin")
    on_path = tool("path")
    assert found() == on_path


def test_the_packages_are_found_without_being_on_path(tool: Tool, tmp_path: Path) -> None:
    for name in ("cuobjdump", "nvdisasm"):
        tool("packages/nvidia/cu13/bin", name)
        record = tmp_path / f"packages/nvidia_cuda_{name}-13.5.37.dist-info"
        record.mkdir()
        (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: nvidia-cuda-{name}\nVersion: 13.5.37\n")
        (record / "RECORD").write_text(f"nvidia/cu13/bin/{name},,\n{record.name}/METADATA,,\n")
    found = find_cuobjdump()
    assert found is not None
    assert found.program == tmp_path / "packages/nvidia/cu13/bin/cuobjdump"
    assert found.nvdisasm == tmp_path / "packages/nvidia/cu13/bin/nvdisasm"


def test_it_is_run_with_nvdisasm_on_its_path(tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool("local/cuda/bin")
    disassembler = tool("home/bin", "nvdisasm")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    found = find_cuobjdump()
    assert found is not None
    assert found.nvdisasm == disassembler
    path, options, file = found(("-sass",), Path("-x.o")).stdout.decode().split()
    assert path.split(os.pathsep)[:2] == [str(tmp_path / "home/bin"), str(tmp_path / "local/cuda/bin")]
    assert (options, file) == ("-sass", str(Path.cwd() / "-x.o"))
