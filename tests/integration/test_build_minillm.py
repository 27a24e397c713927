"""minillm, the demo's upstream, built for real: on this host and in a container, for the CPU and for sm_121."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from patchstack.builds.proofs.device import find_cuobjdump
from patchstack.demo.build import build_demo
from patchstack.machine.local.toolchain import find_nvcc, toolkit_root
from tests.conftest import Places
from tests.support import compiler_cache
from tests.support.checkout import ROOT
from tests.support.toy import IMAGE, need_docker, need_host_tools


@pytest.fixture
def demo(tmp_path: Path, places: Places) -> Path:
    compiler_cache.warm(places.cache)
    return build_demo(tmp_path / "demo").root


def build(demo: Path, *options: str) -> tuple[int, dict[str, Any], str]:
    done = subprocess.run(
        [sys.executable, "-m", "patchstack", "build", "paged", "--json", *options],
        cwd=demo,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


def engine_options(engine: str) -> list[str]:
    if engine == "docker":
        need_docker()
        return ["--engine", "docker", "--image", IMAGE]
    need_host_tools()
    return ["--engine", "host"]


def toolkit() -> str:
    """Return a CUDA toolkit of this machine that supports sm_121."""
    nvcc = find_nvcc(os.environ)
    if nvcc is None or not nvcc.at_least(12, 9):
        pytest.skip("no nvcc of CUDA 12.9 or newer here")
    return str(toolkit_root(nvcc, os.environ))


@pytest.mark.parametrize("engine", ["host", "docker"])
def test_for_the_cpu_every_proof_holds_and_the_program_decodes(demo: Path, engine: str) -> None:
    code, found, stderr = build(demo, *engine_options(engine))
    assert code == 0, stderr
    assert {one["id"]: one["verdict"] for one in found["proofs"]} == dict.fromkeys(
        ("exists", "machine", "runs", "commit", "cuda-arch", "paths"), "PASS"
    )
    program = Path(found["out_dir"]) / "bin" / "minillm-completion"
    said = subprocess.run(
        [program, "--random-seed", "1", "-p", "Hello", "-n", "8"], capture_output=True, text=True, check=True
    ).stdout
    assert said.startswith("Hello")


@pytest.mark.parametrize("engine", ["host", "docker"])
def test_for_gb10_the_machine_code_is_sm_121a_alone(demo: Path, engine: str) -> None:
    options = engine_options(engine)
    root = toolkit()
    if find_cuobjdump() is None:
        pytest.skip("no cuobjdump here")
    if engine == "docker":
        options += ["--toolkit", root]
    code, found, stderr = build(demo, "--arch", "121", *options)
    assert code == 0, (found["proofs"] if found else None, stderr)
    verdicts = {one["id"]: one for one in found["proofs"]}
    assert verdicts["cuda-arch"]["detail"].startswith("sm_121a alone")
    assert verdicts["cuda-ptx"]["verdict"] == "PASS"
    assert found["arch"] == "121a-real"
    if found["platform"] == "linux/amd64":
        assert "The binaries will not run on the target machine" in stderr


def test_a_knob_that_a_patch_asserts_names_that_patch(demo: Path) -> None:
    options = engine_options("host")
    toolkit()
    code, found, _ = build(demo, "--arch", "121", "--compile-define", "MINILLM_MMV_SHARE_X=2", *options)
    assert code == 1
    rejection = found["rejection"]
    assert rejection["kind"] == "rejected"
    assert rejection["patch"] is not None
    assert rejection["patch"].startswith("0004-")
    assert rejection["file"].endswith("mmv-id.cu")
