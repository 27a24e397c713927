"""minillm as llama.cpp's tools: the programs of a build, and the runs that tests make of them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import compiler_cache
from tests.support.checkout import ROOT
from tests.support.once import made_once

UPSTREAM = ROOT / "patchstack" / "demo" / "upstream"

PROMPT = "The capital of France is"
COMPLETION = ("-ngl", "99", "-fa", "on", "-fit", "off", "-c", "512", "--temp", "0", "--seed", "1", "-n", "24", "--perf")
BATCH = ("-fit", "off", "-c", "128", "-b", "128", "-ub", "128", "--chunks", "3", "--perf", "-lv", "4")
_TEXT = "".join(f"The {number * 7 % 31} birds of {number * number % 17} trees sing. " for number in range(40))


class Programs:
    """The programs of a build, two models with different seeds, and a text, in a separate directory."""

    def __init__(self, build: Path, work: Path) -> None:
        self.bin = build / "bin"
        self.work = work
        for seed in (1, 2):
            assert self.run("minillm-make-model", "-o", f"seed-{seed}.mllm", "--seed", str(seed)).returncode == 0
        (work / "text.txt").write_text(_TEXT)

    def command(self, program: str, *args: str) -> list[str]:
        return [str(self.bin / program), *args]

    def environment(self, fault: str) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "LC_ALL": "C", **({"MINILLM_FAULT": fault} if fault else {})}

    def run(self, program: str, *args: str, fault: str = "", seconds: float = 60) -> subprocess.CompletedProcess[bytes]:
        """Run a program to its end, or until the time limit."""
        return subprocess.run(
            self.command(program, *args),
            cwd=self.work,
            env=self.environment(fault),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )

    def complete(self, fault: str = "", seconds: float = 60) -> subprocess.CompletedProcess[bytes]:
        return self.run(
            "llama-completion", "-m", "seed-1.mllm", *COMPLETION, "-p", PROMPT, fault=fault, seconds=seconds
        )

    def base(self) -> subprocess.CompletedProcess[bytes]:
        """Make the base of KL divergences with the model of seed 1."""
        options = ("-f", "text.txt", *BATCH, "--kl-divergence-base", "base.kl")
        return self.run("llama-perplexity", "-m", "seed-1.mllm", *options)

    def diverge(self, seed: int, base: str = "base.kl", fault: str = "") -> subprocess.CompletedProcess[bytes]:
        """Measure the KL divergence of a model from a base."""
        options = (*BATCH, "--kl-divergence-base", base, "--kl-divergence")
        return self.run("llama-perplexity", "-m", f"seed-{seed}.mllm", *options, fault=fault)

    @contextmanager
    def serving(self, fault: str = "") -> Iterator[tuple[subprocess.Popen[str], int]]:
        """Start a server on a free port, and yield the process and the port."""
        command = self.command("llama-server", "-m", "seed-1.mllm", "-fit", "off", "-c", "512", "--metrics")
        with subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", "0"],
            cwd=self.work,
            env=self.environment(fault),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                assert process.stderr is not None
                listening = next(line for line in process.stderr if "server is listening on" in line)
                yield process, int(listening.rsplit(":", 1)[1])
            finally:
                process.terminate()


QUICK = ("-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG")
"""Options of CMake with which it compiles in a third of the time."""


def built_upstream(factory: pytest.TempPathFactory) -> Path:
    """Build the upstream's multi-call program and the program that makes models, once for each run, and return the
    build's directory."""

    def make(place: Path) -> None:
        targets = ("minillm-llama", "minillm-make-model", "minillm-completion")
        made = ("-DMINILLM_FATAL_WARNINGS=ON", "-DMINILLM_BUILD_COMMIT=0123abcd", *QUICK)
        options = (*made, *compiler_cache.cmake_options())
        environment = {**os.environ, **compiler_cache.variables()}
        for command in (
            ("cmake", "-S", str(UPSTREAM), "-B", str(place), *options),
            ("cmake", "--build", str(place), "-j2", "--target", *targets),
        ):
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr

    return made_once(factory, "minillm", make)
