"""The proofs about device code, on files from a real nvcc with output of the real cuobjdump."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from patchstack.builds.proofs.device import Cuobjdump, fp4_instructions, machine_code, ptx
from patchstack.builds.proofs.prove import BIN, OBJECTS, Proof, find_cuobjdump, prove_build
from patchstack.verdict import Verdict
from tests.support.compiled import AARCH64, KEY, claim, for_machine

PASS, FAIL, INVALID = Verdict.PASS, Verdict.FAIL, Verdict.INVALID
FOR_121A = ("-gencode", "arch=compute_121a,code=sm_121a")
FOR_90 = ("-gencode", "arch=compute_90,code=sm_90")
WITH_PTX = ("-arch=sm_90",)
PTX_ALONE = ("-gencode", "arch=compute_121a,code=compute_121a")
SHARED = ("-shared", "-Xcompiler", "-fPIC")

KERNEL = """
__global__ void scale(float * x, float s, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { x[i] *= s; }
}
extern "C" void scale_all(float * x, float s, int n) { scale<<<(n + 31) / 32, 32>>>(x, s, n); }
"""
MAIN = f"""
#include <cstdio>
int main() {{ puts("version: 1 ({KEY})"); return 0; }}
"""
# One NVFP4 product of a 16x64 by a 64x8 matrix, its scales in ue4m3: PTX ISA 8.7, mma with block scaling.
FP4_KERNEL = """
__global__ void product(const unsigned * a, const unsigned * b, const unsigned * scale, float * d) {
    float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
    asm volatile(
        "mma.sync.aligned.kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue4m3 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, %10, {0, 0}, %11, {0, 0};"
        : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(scale[0]), "r"(scale[1]));
    d[0] = d0; d[1] = d1; d[2] = d2; d[3] = d3;
}
"""


@pytest.fixture
def cuobjdump() -> Cuobjdump:
    found = find_cuobjdump()
    if found is None:
        pytest.skip("no cuobjdump here (pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm)")
    return found


def nvcc(source: str, out: Path, *flags: str) -> Path:
    """Compile CUDA source with these flags; skip the test without an nvcc that supports sm_121a."""
    compiler = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if compiler is None:
        pytest.skip("no nvcc here")
    known = subprocess.run([compiler, "--list-gpu-code"], capture_output=True, encoding="utf-8", check=True).stdout
    if "sm_121" not in known.split():
        pytest.skip("no nvcc for sm_121 here: that takes CUDA 12.9")
    out.parent.mkdir(parents=True, exist_ok=True)
    file = out.parent.parent / f"{out.name}.cu"
    file.write_text(source)
    done = subprocess.run([compiler, *flags, str(file), "-o", str(out)], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return out


def proofs(directory: Path, dump: Cuobjdump | None, *architectures: str, **more: object) -> dict[str, Proof]:
    asked = claim(architectures=architectures, **more)
    return {proof.id: proof for proof in prove_build(directory, asked, cuobjdump=dump, run=None)}


def test_a_library_and_a_program_for_sm_121a_hold(tmp_path: Path, cuobjdump: Cuobjdump) -> None:
    nvcc(MAIN, tmp_path / BIN / "tool", *FOR_121A)
    nvcc(KERNEL, tmp_path / BIN / "libscale.so", *SHARED, *FOR_121A)
    nvcc(FP4_KERNEL, tmp_path / OBJECTS / "mmq-instance-nvfp4.cu.o", "-c", *FOR_121A)
    found = proofs(tmp_path, cuobjdump, "121a", fp4_sources=True)
    del found["runs"]
    assert {proof.verdict for proof in found.values()} == {PASS}, found
    assert found["cuda-arch"].detail == "sm_121a alone: 4 entries in libscale.so, tool"
    assert found["cuda-ptx"].detail == "none in libscale.so, tool"
    assert found["fp4"].detail == "1 OMMA…E2M1 for sm_121a in mmq-instance-nvfp4.cu.o"


def test_the_same_code_is_no_build_without_cuda(tmp_path: Path) -> None:
    nvcc(MAIN, tmp_path / BIN / "tool", *FOR_121A)
    found = proofs(tmp_path, None)["cuda-arch"]
    assert (found.verdict, found.detail) == (FAIL, "a build without CUDA, but device code is in tool")


@pytest.mark.parametrize(
    ("flags", "asked", "detail"),
    [
        (
            FOR_90,
            ("121a",),
            "requested sm_121a; libscale.so has machine code for sm_90; no binary has machine code for sm_121a",
        ),
        ((*FOR_121A, *FOR_90), ("121a",), "requested sm_121a; libscale.so has machine code for sm_90"),
        (FOR_90, ("90", "121a"), "requested sm_90, sm_121a; no binary has machine code for sm_121a"),
        (
            PTX_ALONE,
            ("121a",),
            "requested sm_121a; libscale.so has device code, but no machine code;"
            " no binary has machine code for sm_121a",
        ),
    ],
)
def test_another_architecture_fails(
    tmp_path: Path, cuobjdump: Cuobjdump, flags: tuple[str, ...], asked: tuple[str, ...], detail: str
) -> None:
    nvcc(KERNEL, tmp_path / BIN / "libscale.so", *SHARED, *flags)
    found = proofs(tmp_path, cuobjdump, *asked)["cuda-arch"]
    assert (found.verdict, found.detail) == (FAIL, detail)


def test_plain_sm_121_is_not_sm_121a(tmp_path: Path, cuobjdump: Cuobjdump) -> None:
    nvcc(KERNEL, tmp_path / BIN / "libscale.so", *SHARED, "-gencode", "arch=compute_121,code=sm_121")
    assert "libscale.so has machine code for sm_121;" in proofs(tmp_path, cuobjdump, "121a")["cuda-arch"].detail


@pytest.mark.parametrize(
    ("flags", "asked", "architecture"), [(WITH_PTX, "90", "sm_90"), (PTX_ALONE, "121a", "sm_121a")]
)
def test_ptx_inside_fails(
    tmp_path: Path, cuobjdump: Cuobjdump, flags: tuple[str, ...], asked: str, architecture: str
) -> None:
    nvcc(KERNEL, tmp_path / BIN / "libscale.so", *SHARED, *flags)
    found = proofs(tmp_path, cuobjdump, asked)["cuda-ptx"]
    assert (found.verdict, found.detail) == (FAIL, f"libscale.so has PTX for {architecture}")


def test_ptx_in_relocatable_device_code_fails_too(tmp_path: Path, cuobjdump: Cuobjdump) -> None:
    out = tmp_path / BIN / "libscale.so"
    nvcc(KERNEL, out, *SHARED, "-rdc=true", "-gencode", "arch=compute_90,code=[sm_90,compute_90]")
    assert b"No PTX file found" in (said := cuobjdump(("--list-ptx",), out)).stdout + said.stderr
    assert proofs(tmp_path, cuobjdump, "90")["cuda-ptx"].verdict is FAIL


@pytest.mark.parametrize("mode", ["default", "size", "speed", "balance", "none"])
def test_compressed_code_is_read_as_well(tmp_path: Path, cuobjdump: Cuobjdump, mode: str) -> None:
    path = nvcc(FP4_KERNEL, tmp_path / OBJECTS / "nvfp4.cu.o", "-c", f"-compress-mode={mode}", *FOR_121A)
    assert machine_code(cuobjdump, path) == ("121a",)
    assert ptx(cuobjdump, path) == ()
    assert fp4_instructions(cuobjdump, path) == {"121a": 1}


def test_an_aarch64_object_is_read_on_any_machine(tmp_path: Path, cuobjdump: Cuobjdump) -> None:
    path = nvcc(FP4_KERNEL, tmp_path / OBJECTS / "nvfp4.cu.o", "-c", *FOR_121A)
    for_machine(path, AARCH64)
    assert machine_code(cuobjdump, path) == ("121a",)
    assert fp4_instructions(cuobjdump, path) == {"121a": 1}


def test_stripped_binaries_are_judged_as_well(tmp_path: Path, cuobjdump: Cuobjdump) -> None:
    path = nvcc(MAIN, tmp_path / BIN / "tool", *FOR_121A)
    subprocess.run(["strip", str(path)], check=True)
    found = proofs(tmp_path, cuobjdump, "121a")
    assert (found["cuda-arch"].verdict, found["cuda-ptx"].verdict) == (PASS, PASS)


def test_fp4_kernels_that_were_compiled_to_something_else_fail(tmp_path: Path, cuobjdump: Cuobjdump) -> None:
    nvcc(KERNEL, tmp_path / OBJECTS / "mmq-instance-mxfp4.cu.o", "-c", *FOR_121A)
    nvcc(MAIN, tmp_path / BIN / "tool", *FOR_121A)
    found = proofs(tmp_path, cuobjdump, "121a", fp4_sources=True)["fp4"]
    assert found.verdict is FAIL
    assert found.detail == "no FP4 instruction (OMMA…E2M1) for sm_121a in mmq-instance-mxfp4.cu.o"


def test_one_object_with_them_is_enough(tmp_path: Path, cuobjdump: Cuobjdump) -> None:
    nvcc(KERNEL, tmp_path / OBJECTS / "a-fp4.cu.o", "-c", *FOR_121A)
    nvcc(FP4_KERNEL, tmp_path / OBJECTS / "b-fp4.cu.o", "-c", *FOR_121A)
    (tmp_path / OBJECTS / "c-fp4.cu.o").write_bytes(os.urandom(4096))
    assert proofs(tmp_path, cuobjdump, "121a", fp4_sources=True)["fp4"].verdict is PASS


def test_without_nvdisasm_it_says_how_to_get_it(
    tmp_path: Path, cuobjdump: Cuobjdump, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvcc(FP4_KERNEL, tmp_path / OBJECTS / "nvfp4.cu.o", "-c", *FOR_121A)
    alone = tmp_path / "alone/cuobjdump"
    alone.parent.mkdir()
    shutil.copy(cuobjdump.program, alone)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    found = proofs(tmp_path, Cuobjdump(program=alone, nvdisasm=None), "121a", fp4_sources=True)["fp4"]
    assert found.verdict is INVALID
    assert found.detail == "nvfp4.cu.o: cuobjdump finds no nvdisasm; hint: patchstack doctor says how to get it"


def test_garbage_and_halves_are_no_crash(tmp_path: Path, cuobjdump: Cuobjdump) -> None:
    whole = nvcc(KERNEL, tmp_path / BIN / "libscale.so", *SHARED, *FOR_121A).read_bytes()
    (tmp_path / OBJECTS).mkdir()
    (tmp_path / OBJECTS / "a-fp4.o").write_bytes(b"")
    (tmp_path / OBJECTS / "b-fp4.o").write_bytes(os.urandom(5000))
    (tmp_path / OBJECTS / "c-fp4.o").write_bytes(whole[: len(whole) // 2])
    (tmp_path / BIN / "libhalf.so").write_bytes(whole[: len(whole) // 2])
    found = proofs(tmp_path, cuobjdump, "121a", fp4_sources=True)
    assert found["machine"].verdict is FAIL
    assert "libhalf.so is truncated" in found["machine"].detail
    assert found["cuda-arch"].verdict is INVALID
    assert "libhalf.so may have device code" in found["cuda-arch"].detail
    assert found["fp4"].verdict is INVALID
    assert "a-fp4.o: cuobjdump -sass failed (exit 1): cuobjdump fatal   : Invalid fatbin header" in found["fp4"].detail


def test_scrambled_device_code_is_never_a_pass_of_another(tmp_path: Path, cuobjdump: Cuobjdump) -> None:
    path = nvcc(KERNEL, tmp_path / BIN / "libscale.so", *SHARED, *FOR_121A)
    whole = path.read_bytes()
    magic = (0xBA55ED50).to_bytes(4, "little")
    assert magic in whole
    path.write_bytes(whole.replace(magic, b"\xff\xff\xff\xff"))
    assert proofs(tmp_path, cuobjdump, "121a")["cuda-arch"].verdict is not PASS
