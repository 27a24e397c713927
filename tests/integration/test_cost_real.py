"""Costs against a real llama.cpp: PATCHSTACK_LLAMA_BIN names the `bin` of a CPU build of the pin.

Small parts of `benchmarks/cost_memory.py` and `benchmarks/cost_prefix.py`, which do the same for more cases.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
from pathlib import Path

import pytest

from benchmarks.cost_images import run_agent
from benchmarks.cost_memory import computed, grid, told
from benchmarks.cost_prefix import check
from patchstack.cost.experts import distinct_of_shares, read_imatrix
from patchstack.cost.memory import MIB, allocate
from patchstack.cost.model import read_model, write_shape
from patchstack.workflow.cost import ask_fit_params, open_subject
from tests.support import tiny_gguf
from tests.support.gguf_header import hybrid_35b
from tests.support.gguf_header import write_shape as write_hole
from tests.support.llama_server import llama_server
from tests.support.tiny_vision import write_vision_model
from tests.support.tiny_window import write_window_model

BIN = Path(os.environ.get("PATCHSTACK_LLAMA_BIN", ""))
pytestmark = [
    pytest.mark.skipif(
        not os.environ.get("PATCHSTACK_LLAMA_BIN"), reason="PATCHSTACK_LLAMA_BIN names no build of llama.cpp"
    ),
    pytest.mark.local_server,
]
KINDS = ("llama", "qwen35moe", "window")


def model_of(kind: str, directory: Path) -> Path:
    path = directory / f"{kind}.gguf"
    if kind == "window":
        return write_window_model(path)
    architecture: tiny_gguf.Architecture = "llama" if kind == "llama" else "qwen35" if kind == "qwen35" else "qwen35moe"
    return tiny_gguf.write_model(path, architecture, chat=True)


@pytest.mark.parametrize("kind", KINDS)
def test_memory_is_what_the_log_says_to_its_last_digit(tmp_path: Path, kind: str) -> None:
    model = model_of(kind, tmp_path)
    runs = grid((300, 5000), (3,))
    assert len(runs) == 12
    for options, slots in runs:
        log = told(BIN, model, options, slots)
        assert log.caches, options
        assert log == computed(model, options, slots), options


@pytest.mark.parametrize("context", [300, 32768])
def test_totals_are_those_of_llama_fit_params(tmp_path: Path, context: int) -> None:
    model = write_hole(tmp_path / "shape.gguf", *hybrid_35b(weights="f16", vocab=4096))
    subject = open_subject(model, ["-c", str(context), "-np", "3"])
    memory = allocate(subject.workload().layout, subject.options, subject.model.tensor_bytes)
    (host,) = ask_fit_params(BIN, subject)
    assert (host.model // MIB, host.context // MIB) == (memory.weights // MIB, memory.context // MIB)
    assert host.compute > 0


@pytest.mark.parametrize("kind", ["qwen35", "window"])
def test_checkpoints_have_the_size_that_the_log_says(tmp_path: Path, kind: str) -> None:
    model, log = model_of(kind, tmp_path), tmp_path / "server.log"
    options = ("-c", "2048", "-np", "1", "-ub", "64", "-cms", "0")
    with llama_server(BIN, model, log, *options) as server:
        server.post("/completion", {"prompt": "abcdefgh " * 60, "n_predict": 2})
    sizes = re.findall(
        r"created context checkpoint .*n_tokens = (\d+), size = ([\d.]+) MiB", log.read_text(errors="replace")
    )
    assert sizes
    subject = open_subject(model, options)
    memory = allocate(subject.workload().layout, subject.options, 0)
    assert sizes[-1][1] == f"{memory.checkpoint_bytes / MIB:.3f}"


@pytest.mark.parametrize(("kind", "chat"), [("llama", True), ("qwen35", True), ("qwen35", False), ("window", True)])
def test_reuse_is_predicted_and_planted_changes_are_named(tmp_path: Path, kind: str, chat: bool) -> None:
    options = ("-c", "4096", "-np", "2", "-ub", "64", "-cms", "0", "-ctxcp", "4")
    found = check(BIN, model_of(kind, tmp_path), options, tmp_path, random.Random(5), count=2, steps=4, chat=chat)
    assert found.steps == 8
    assert found.wrong == ()
    assert found.unnamed == ()


@pytest.mark.parametrize("kind", ["llama", "qwen35"])
def test_images_are_counted_as_a_multimodal_server_counts_them(tmp_path: Path, kind: str) -> None:
    files = {
        "work": tmp_path,
        "model": model_of(kind, tmp_path),
        "vision": write_vision_model(tmp_path / "vision.gguf"),
    }
    how = argparse.Namespace(bin=BIN, steps=4, images=2)
    options = ("-c", "4096", "-np", "1", "-ub", "64", "-b", "256")
    shown, answers = run_agent(BIN, files, options, "in place", [], how)
    assert [one.predicted for one in shown.steps] == [one.cached for one in shown.steps]
    last, _ = run_agent(BIN, files, options, "at the end", answers, how)
    assert [one.predicted for one in last.steps] == [one.cached for one in last.steps]
    foretold = next(one.processed for one in shown.ways if one.name == "last 2 images at the end")
    assert foretold == sum(one.processed for one in last.steps)


def test_the_counts_of_an_imatrix_give_the_experts_that_batches_read(tmp_path: Path) -> None:
    model = model_of("qwen35moe", tmp_path)
    text, out = tmp_path / "text.txt", tmp_path / "imatrix.gguf"
    draw = random.Random(2)
    text.write_text("".join(draw.choice("abcdefghijklmnop \n") for _ in range(3000)))
    command = [
        str(BIN / "llama-imatrix"),
        "-m",
        str(model),
        "-f",
        str(text),
        "-o",
        str(out),
        "-c",
        "256",
        "-b",
        "256",
        "--chunks",
        "4",
    ]
    subprocess.run(command, capture_output=True, check=True, timeout=300)
    routing = read_imatrix(out, read_model(model))
    assert sorted(routing.shares) == [0, 1, 2, 3]
    for shares in routing.shares.values():
        assert sum(shares) == pytest.approx(routing.used, rel=1e-6)
        drawn = sum(
            len({at for _ in range(8) for at, share in enumerate(shares) if draw.random() < share})
            for _ in range(10_000)
        )
        assert distinct_of_shares(shares, 8) == pytest.approx(drawn / 10_000, rel=0.005)


def test_a_shape_is_loaded_by_the_real_tools(tmp_path: Path) -> None:
    model = model_of("qwen35moe", tmp_path)
    (shape,) = write_shape(read_model(model), tmp_path / "shape.gguf")
    assert shape.stat().st_size >= model.stat().st_size - 32
    assert shape.stat().st_blocks * 512 < model.stat().st_size
    command = [
        str(BIN / "llama-completion"),
        "-m",
        str(shape),
        "-n",
        "0",
        "--no-warmup",
        "-no-cnv",
        "-p",
        "x",
        "-c",
        "512",
    ]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-500:]
