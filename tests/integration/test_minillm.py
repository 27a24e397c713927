"""minillm, the demo's upstream and fork, built with its build tool: for the CPU and, if nvcc is installed, for GPUs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from patchstack.demo.build import build_demo
from tests.support.builders import run_git

TOOLS = ("minillm-bench", "minillm-completion", "minillm-llama", "minillm-make-model", "minillm-perplexity")
LINKS = ("llama-batched-bench", "llama-completion", "llama-perplexity", "llama-server", "test-backend-ops")
TESTS = ("test-model", "test-ops", "test-paged")
COMMIT = "0123456789abcdef"

pytestmark = pytest.mark.skipif(
    shutil.which("cmake") is None or shutil.which("c++") is None, reason="needs cmake and a C++ compiler"
)
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc, the CUDA compiler")


def ran(*args: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end. Its environment has only PATH and the given variables."""
    return subprocess.run(
        [str(arg) for arg in args],
        check=False,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C", **environment},
    )


def configured(source: Path, build: Path, *options: str) -> Path:
    done = ran("cmake", "-S", source, "-B", build, f"-DMINILLM_BUILD_COMMIT={COMMIT}", *options)
    assert done.returncode == 0, done.stderr
    return build


def built(source: Path, build: Path, *options: str) -> Path:
    """Configure and build, and return the directory of the programs."""
    done = ran("cmake", "--build", configured(source, build, "-DMINILLM_FATAL_WARNINGS=ON", *options), "-j2")
    assert done.returncode == 0, done.stdout + done.stderr
    return build / "bin"


def rejection(build: Path) -> str:
    """Return the compiler's message for a build that must fail."""
    done = ran("cmake", "--build", build, "--target", "ggml")
    assert done.returncode != 0, done.stdout
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def fork(tmp_path_factory: pytest.TempPathFactory) -> Path:
    demo = build_demo(tmp_path_factory.mktemp("minillm") / "demo")
    run_git("switch", "-q", "paged", cwd=demo.root / "fork")
    return demo.root / "fork"


@pytest.fixture(scope="module")
def cpu(fork: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(fork, tmp_path_factory.mktemp("cpu") / "build")


def test_every_program_says_what_was_built(cpu: Path) -> None:
    assert {path.name for path in cpu.iterdir()} == {*TOOLS, *LINKS, *TESTS}
    for path in cpu.iterdir():
        said = ran(path, "--version")
        version, built_with = said.stdout.splitlines()
        assert (said.returncode, version) == (0, f"version: 0 ({COMMIT})")
        assert built_with.startswith("built with ") and " for " in built_with


def test_another_commit_compiles_one_file_anew(fork: Path, tmp_path: Path) -> None:
    build = tmp_path / "build"
    built(fork, build, "-DCMAKE_BUILD_TYPE=Debug")
    before = {path: path.stat().st_mtime_ns for path in build.rglob("*.o")}
    built(fork, build, "-DCMAKE_BUILD_TYPE=Debug", "-DMINILLM_BUILD_COMMIT=another")
    changed = [path.name for path, time in before.items() if path.stat().st_mtime_ns != time]
    assert changed == ["build-info.cpp.o"]
    assert "(another)" in ran(build / "bin" / "test-ops", "--version").stdout


def test_a_backend_that_was_asked_for_and_does_not_run_is_no_success(cpu: Path) -> None:
    asked = ran(cpu / "test-ops", "-b", "CUDA0")
    assert asked.returncode == 2
    assert asked.stdout.splitlines()[-3:] == ["  Backend CUDA0: skipped", "0/0 backends passed, 1 skipped", "FAIL"]
    assert asked.stderr == "test-ops: no test ran\n"
    both = ran(cpu / "test-ops")
    assert both.returncode == 0
    assert "  Backend CPU: OK\n" in both.stdout
    assert both.stdout.endswith("1/1 backends passed, 1 skipped\nOK\n")


def test_an_operator_that_does_not_exist_is_no_success(cpu: Path) -> None:
    assert ran(cpu / "test-ops", "-o", "MUL_MATT").returncode == 2


def test_without_a_gpu_the_twin_takes_over_and_says_so_once(cpu: Path) -> None:
    arguments = ("--random-seed", "1", "-p", "Hello", "-n", "16")
    twin = ran(cpu / "minillm-completion", *arguments, MINILLM_BACKEND="cuda", MINILLM_NO_TIMINGS="1")
    plain = ran(cpu / "minillm-completion", *arguments, MINILLM_NO_TIMINGS="1")
    assert twin.stdout == plain.stdout
    assert (twin.stderr, plain.stderr) == ("MINILLM_BACKEND=cuda: this build has no CUDA, so the CPU does it\n", "")
    wrong = ran(cpu / "minillm-completion", *arguments, MINILLM_BACKEND="vulkan")
    assert wrong.returncode == 1
    assert wrong.stderr == "minillm-completion: error: MINILLM_BACKEND is neither cpu nor cuda: vulkan\n"


@pytest.mark.parametrize("rows", ["0", "3", "32", "-4"])
def test_a_bad_number_of_rows_is_rejected_at_compile_time(fork: Path, tmp_path: Path, rows: str) -> None:
    said = rejection(configured(fork, tmp_path / "build", f"-DCMAKE_CXX_FLAGS=-DMINILLM_MMV_ROWS={rows}"))
    assert "mmv-id.h" in said
    assert "MINILLM_MMV_ROWS has to be a power of two up to 16" in said


def test_cuda_without_architectures_is_refused(fork: Path, tmp_path: Path) -> None:
    done = ran("cmake", "-S", fork, "-B", tmp_path / "build", "-DMINILLM_CUDA=ON")
    assert done.returncode != 0
    assert "MINILLM_CUDA: name the GPU architectures to build for" in done.stderr
    assert "-DCMAKE_CUDA_ARCHITECTURES=90-real" in done.stderr


@needs_nvcc
@pytest.mark.parametrize("architecture", ["90-real", "121a-real"])
def test_the_cuda_build_runs_without_a_gpu_and_names_no_path_of_this_machine(
    fork: Path, tmp_path: Path, architecture: str
) -> None:
    programs = built(fork, tmp_path / "build", "-DMINILLM_CUDA=ON", f"-DCMAKE_CUDA_ARCHITECTURES={architecture}")
    assert {path.name for path in programs.iterdir()} == {*TOOLS, *LINKS, *TESTS}
    said = ran(programs / "test-ops")
    assert said.returncode == 0
    assert "no CUDA device" in said.stdout or "  Backend CUDA0: OK\n" in said.stdout
    for path in programs.iterdir():
        content = path.read_bytes()
        for machine in (fork, tmp_path):
            assert str(machine).encode() not in content, path.name
    # the kernel's error messages contain the path of its file in the source tree
    assert b"./ggml/src/ggml-cuda/mmv-id.cu" in (programs / "test-ops").read_bytes()


@needs_nvcc
def test_a_cuda_program_has_the_same_bytes_from_every_directory(fork: Path, tmp_path: Path) -> None:
    programs = []
    for name in ("one", "two"):
        source, build = tmp_path / name / "src", tmp_path / name / "build"
        shutil.copytree(fork, source)
        configured(source, build, "-DMINILLM_CUDA=ON", "-DCMAKE_CUDA_ARCHITECTURES=121a-real")
        assert ran("cmake", "--build", build, "--target", "test-model", "-j2").returncode == 0
        programs.append((build / "bin" / "test-model").read_bytes())
    assert b"mmv-id.cu" in programs[0]
    assert programs[0] == programs[1]


@needs_nvcc
def test_a_bad_knob_of_a_patch_is_rejected_in_the_kernel(fork: Path, tmp_path: Path) -> None:
    options = ("-DMINILLM_CUDA=ON", "-DCMAKE_CUDA_ARCHITECTURES=121a-real")
    of_patch = configured(fork, tmp_path / "patch", *options, "-DCMAKE_CUDA_FLAGS=-DMINILLM_MMV_SHARE_X=2")
    assert "MINILLM_MMV_SHARE_X has to be 0 or 1" in rejection(of_patch)
    of_upstream = configured(fork, tmp_path / "upstream", *options, "-DCMAKE_CUDA_FLAGS=-DMINILLM_MMV_ROWS=3")
    assert "MINILLM_MMV_ROWS has to be a power of two up to 16" in rejection(of_upstream)
