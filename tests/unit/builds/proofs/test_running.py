"""The proof that a build's programs start."""

from __future__ import annotations

import platform as this
from pathlib import Path

import pytest

from patchstack.builds.proofs.files import survey
from patchstack.builds.proofs.prove import BIN, ProgramOutput, run_here
from patchstack.builds.proofs.running import Kind, Start, judge_start, runs, start_targets
from patchstack.errors import MissingError
from patchstack.process import ProgramTimeout
from patchstack.verdict import Verdict
from tests.support.compiled import AARCH64, KEY, OTHER_KEY, claim, compile_c, for_machine, library, program

needs_amd64 = pytest.mark.skipif(this.machine() != "x86_64", reason="this machine runs no linux/amd64 programs")
LOADER = b"./tool: error while loading shared libraries: %s: cannot open shared object file: No such file or directory"
SYMBOL = b"./tool: symbol lookup error: ./libggml-cuda.so: undefined symbol: %s"


@pytest.mark.parametrize(
    ("code", "output", "kind", "words"),
    [
        (0, f"version: 7 ({KEY})\nbuilt with cc\n".encode(), Kind.KEY, "printed the build key"),
        (1, f"tool {KEY}".encode(), Kind.KEY, "printed the build key"),
        (0, b"version: 7 (0ed235ea2)\nbuilt", Kind.OTHER, "printed 'version: 7 (0ed235ea2)'"),
        (0, b"version: deadbeef", Kind.OTHER, "printed 'version: deadbeef'"),
        (0, b"\n  tool version 1.2\n", Kind.OTHER, "printed 'tool version 1.2'"),
        (0, b"usage: tool\n  --version  show version and exit\n", Kind.NO_VERSION, "prints no version (exit 0)"),
        (0, b"", Kind.NO_VERSION, "prints no version (exit 0)"),
        (1, b"Usage: test-backend-ops [mode]", Kind.NO_VERSION, "prints no version (exit 1)"),
        (1, b"version: 7 (0ed235ea2)", Kind.NO_VERSION, "prints no version (exit 1)"),
        (129, b"usage: git", Kind.NO_VERSION, "prints no version (exit 129)"),
        (-6, b"", Kind.BROKEN, "was ended by SIGABRT"),
        (134, b"", Kind.BROKEN, "was ended by SIGABRT"),
        (139, f"version: 7 ({KEY})".encode(), Kind.BROKEN, "was ended by SIGSEGV"),
        (-2, b"", Kind.BROKEN, "was ended by SIGINT"),
        (-99, b"", Kind.BROKEN, "was ended by signal 99"),
        (126, b"Exec format error", Kind.BROKEN, "cannot be started (exit 126: Exec format error)"),
        (127, b"", Kind.BROKEN, "cannot be started (exit 127)"),
        (127, LOADER % b"libggml.so.0", Kind.BROKEN, "lacks library libggml.so.0"),
        (127, SYMBOL % b"ggml_init", Kind.BROKEN, "lacks symbol ggml_init"),
        (127, LOADER % b"libcuda.so.1", Kind.NOT_RUN, "lacks library libcuda.so.1, which comes with the NVIDIA driver"),
        (127, SYMBOL % b"cuMemMap", Kind.NOT_RUN, "lacks symbol cuMemMap, which comes with the NVIDIA driver"),
        (127, LOADER % b"libcudart.so.13", Kind.BROKEN, "lacks library libcudart.so.13"),
        (127, SYMBOL % b"cudaMalloc", Kind.BROKEN, "lacks symbol cudaMalloc"),
        (
            127,
            b"Error loading shared library liba.so: No such file (needed by ./tool)",
            Kind.BROKEN,
            "lacks library liba.so",
        ),
    ],
)
def test_exit_code_and_output_say_how_a_program_started(code: int, output: bytes, kind: Kind, words: str) -> None:
    start = judge_start("tool", ProgramOutput(code=code, output=output), KEY)
    assert (start.kind, start.words) == (kind, words)


def start(name: str, kind: Kind) -> Start:
    return Start(name=name, kind=kind, words=f"is {kind.name}")


@pytest.mark.parametrize(
    ("starts", "verdict", "detail"),
    [
        ((start("a", Kind.KEY),), Verdict.PASS, "a printed the build key"),
        (
            (start("ops", Kind.NO_VERSION), start("a", Kind.KEY), start("b", Kind.KEY)),
            Verdict.PASS,
            "a, b printed the build key; ops is NO_VERSION: not judged",
        ),
        ((start("a", Kind.KEY), start("b", Kind.BROKEN)), Verdict.FAIL, "a printed the build key; b is BROKEN"),
        ((start("a", Kind.KEY), start("b", Kind.NOT_RUN)), Verdict.PASS, "a printed the build key; b is NOT_RUN"),
        ((start("a", Kind.NOT_RUN),), Verdict.INVALID, "a is NOT_RUN"),
        ((start("a", Kind.NO_VERSION),), Verdict.INVALID, "a is NO_VERSION: not judged"),
        ((start("a", Kind.OTHER),), Verdict.INVALID, "a is OTHER"),
        ((), Verdict.INVALID, "no program could be started"),
        (None, Verdict.INVALID, "cannot run here: linux/arm64 programs on linux/amd64"),
    ],
)
def test_one_program_with_the_key_and_none_broken_is_a_pass(
    starts: tuple[Start, ...] | None, verdict: Verdict, detail: str
) -> None:
    proof = runs(starts, "cannot run here: linux/arm64 programs on linux/amd64")
    assert (proof.verdict, proof.detail) == (verdict, detail)


def started(directory: Path, target: str = "tool") -> Start:
    (found,) = start_targets(survey(directory), claim(targets=(target,)), run_here)
    return found


@needs_amd64
def test_a_program_is_really_run(tmp_path: Path) -> None:
    compile_c(program(), tmp_path / BIN / "tool")
    assert started(tmp_path).kind is Kind.KEY


@needs_amd64
def test_another_builds_program_tells_on_itself(tmp_path: Path) -> None:
    compile_c(program(f'puts("version: 1 ({OTHER_KEY})");'), tmp_path / BIN / "tool")
    assert started(tmp_path).kind is Kind.OTHER


@needs_amd64
def test_a_program_that_aborts_is_broken(tmp_path: Path) -> None:
    compile_c(program("abort();"), tmp_path / BIN / "tool")
    assert started(tmp_path).words == "was ended by SIGABRT"


@needs_amd64
@pytest.mark.parametrize(("soname", "kind"), [("libneeded.so", Kind.BROKEN), ("libcuda.so.1", Kind.NOT_RUN)])
def test_a_library_missing_at_run_is_told(tmp_path: Path, soname: str, kind: Kind) -> None:
    needed = library(tmp_path / BIN / soname)
    source = "int answer(void); int main(void) { return answer(); }"
    compile_c(source, tmp_path / BIN / "tool", str(needed), "-Wl,-rpath,$ORIGIN")
    needed.unlink()
    found = started(tmp_path)
    assert (found.kind, soname in found.words) == (kind, True)


@needs_amd64
def test_a_driver_symbol_missing_at_run_says_nothing_of_the_build(tmp_path: Path) -> None:
    driver = "int cuInit(unsigned); int answer(void) { return cuInit(0); }"
    gpu = library(tmp_path / BIN / "libgpu.so", "-Wl,-z,now", source=driver)
    source = "int answer(void); int main(void) { return answer(); }"
    compile_c(source, tmp_path / BIN / "tool", str(gpu), "-Wl,-rpath,$ORIGIN", "-Wl,--allow-shlib-undefined")
    found = started(tmp_path)
    assert found.words == "lacks symbol cuInit, which comes with the NVIDIA driver"


@needs_amd64
def test_a_program_without_its_loader_is_broken(tmp_path: Path) -> None:
    compile_c(program(), tmp_path / BIN / "tool", "-Wl,--dynamic-linker=/none/ld.so")
    assert started(tmp_path).words == "cannot be started (exit 127: its program loader is not installed)"


@needs_amd64
def test_a_program_that_may_not_be_executed_is_broken(tmp_path: Path) -> None:
    compile_c(program(), tmp_path / BIN / "tool").chmod(0o644)
    assert started(tmp_path).words == "cannot be started (exit 126: Permission denied)"


def test_another_machines_program_is_not_run_but_asked_to_it_fails(tmp_path: Path) -> None:
    path = for_machine(compile_c(program(), tmp_path / BIN / "tool"), AARCH64)
    assert start_targets(survey(tmp_path), claim(), run_here) == ()
    ran = run_here(path, ())
    assert (ran.code, ran.output) == (126, b"Exec format error")


def test_what_could_not_be_run_to_its_end_is_not_judged(tmp_path: Path) -> None:
    def slow(path: Path, arguments: tuple[str, ...]) -> ProgramOutput:
        raise ProgramTimeout(f"{path.name} {arguments[0]} took over 60 s and was stopped")

    compile_c(program(), tmp_path / BIN / "tool")
    (found,) = start_targets(survey(tmp_path), claim(), slow)
    assert found.kind is Kind.NOT_RUN
    assert found.words == "could not be run: tool --version took over 60 s and was stopped"


def test_a_program_that_went_away_is_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="tool is not installed here"):
        run_here(tmp_path / "tool", ())
