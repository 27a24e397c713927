"""backend-ops, kl and drift on a real llama.cpp, with tiny models.

Set PATCHSTACK_LLAMA_BIN to the `bin` of a CPU build with llama-perplexity and test-backend-ops. On a busy machine,
llama-perplexity usually loses its output at exit, so runs are tried often.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchstack.gates.judgement import Judgement
from patchstack.gates.kinds import backend_ops, drift, kl
from patchstack.gates.kinds.backend_ops import OperatorSettings as OpsSpec
from patchstack.gates.kinds.backend_ops import case_list
from patchstack.gates.kinds.kl import KlSettings, Limits
from patchstack.llama.kl import Comparison, Side, base_size
from patchstack.observe.protocol import Model
from patchstack.observe.runner import Runner
from patchstack.verdict import Verdict
from tests.support.programs import a_bench
from tests.support.tiny_gguf import need_gguf, write_model

BIN = os.environ.get("PATCHSTACK_LLAMA_BIN")
pytestmark = pytest.mark.skipif(BIN is None, reason="PATCHSTACK_LLAMA_BIN is not set")
WORDS = "".join(f"The {i * 7 % 31} birds of {i * i % 17} trees sing. " for i in range(420))
TRIES = 12

# Skips every tenth graph, so that old memory contents are compared.
FAILS = """\
int ggml_backend_graph_compute_async(void *, void *);
void ggml_backend_synchronize(void *);
int ggml_backend_graph_compute(void *b, void *g) {
    static int n;
    if (++n % 10 == 4) return 0;
    int e = ggml_backend_graph_compute_async(b, g);
    ggml_backend_synchronize(b);
    return e;
}
"""


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Runner]:
    assert BIN is not None
    with a_bench(Path(BIN), tmp_path / "kept", kind="kl/1") as standing:
        yield standing


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_gguf()
    root = tmp_path_factory.mktemp("models")
    write_model(root / "f32.gguf", "llama", weights="f32")
    write_model(root / "f16.gguf", "llama", weights="f16")
    write_model(root / "seed.gguf", "llama", weights="f32", seed=2)
    shutil.copy(root / "f32.gguf", root / "nan.gguf")
    gguf: Any = importlib.import_module("gguf")
    reader = gguf.GGUFReader(str(root / "nan.gguf"), "r+")
    next(one for one in reader.tensors if one.name == "output_norm.weight").data[:] = float("nan")
    return root


def a_spec(base: Path, test: Path, **settings: Any) -> KlSettings:
    limits = {name: settings.pop(name) for name in ("limits", "calibrate") if name in settings}
    given = {"text": WORDS.encode(), "context": 256, "batch": 256, "ubatch": 256, "chunks": 4, "tries": TRIES}
    return KlSettings(
        comparison=Comparison(
            **{
                "base": Side(model=Model(name="base", path=str(base))),
                "test": Side(model=Model(name="test", path=str(test))),
                **given,
                **settings,
            }
        ),
        **limits,
    )


def ops(bench: Runner, **settings: Any) -> Judgement:
    return backend_ops.run(OpsSpec(**{"backend": "CPU", "ops": ("ADD",), **settings}), bench)


def test_an_operator_passes_with_its_real_count_and_the_cases_it_ran(bench: Runner) -> None:
    judgement = ops(bench, expected=50)
    assert judgement.verdict is Verdict.PASS, judgement
    cases = judgement.details["cases"]
    assert isinstance(cases, list)
    assert judgement.actual == f"{len(cases)}/{len(cases)}"
    lost = ops(bench, cases=case_list([*map(str, cases), "ADD(no such case)"]))
    assert lost.verdict is Verdict.FAIL
    assert "ADD(no such case) (the case no longer exists)" in lost.reason
    alone = ops(bench, ops=(str(cases[0]),), expected=1)
    assert alone.verdict is Verdict.PASS, "a case is selected by its full name"


def test_mul_mat_passes_with_its_real_count(bench: Runner) -> None:
    judgement = ops(bench, ops=("MUL_MAT",), expected=1000)  # 1134 at the pin; patches add cases of their own
    assert judgement.verdict is Verdict.PASS, judgement
    assert judgement.details["total"] == judgement.details["passed"]


@pytest.mark.parametrize(("backend", "op"), [("CUDA0", "ADD"), ("CPU", "NONE_SUCH"), ("cpu", "ADD")])
def test_a_backend_that_is_not_there_and_a_filter_that_matches_nothing_are_invalid(
    bench: Runner, backend: str, op: str
) -> None:
    judgement = ops(bench, backend=backend, ops=(op,))
    assert judgement.verdict is Verdict.INVALID, judgement


def test_a_backend_that_computes_wrong_now_and_then_fails_with_its_rate(bench: Runner, tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    (tmp_path / "fails.c").write_text(FAILS)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "fails.so", tmp_path / "fails.c"], check=True)
    judgement = ops(bench, ops=("L2_NORM",), env=(("LD_PRELOAD", f"{tmp_path}/fails.so"),), alone=3, alone_cases=1)
    assert judgement.verdict is Verdict.FAIL
    assert "of 3 alone" in judgement.reason


def test_a_model_against_itself_passes_and_its_base_has_the_size_of_the_formula(
    bench: Runner, models: Path, tmp_path: Path
) -> None:
    judgement = kl.run(a_spec(models / "f32.gguf", models / "f32.gguf"), bench)
    assert judgement.verdict is Verdict.PASS, judgement
    (kept,) = tmp_path.rglob("kl-*.base")
    assert kept.stat().st_size == base_size(4, 256, 288)
    again = kl.run(a_spec(models / "f32.gguf", models / "f32.gguf"), bench)
    assert again.reason == judgement.reason
    assert [attempt.complaint for attempt in again.attempts] == [None] * 3, "version, base, comparison: all kept"


def test_other_weights_fail_and_rounded_ones_fail_where_limits_are_drawn_from_the_noise(
    bench: Runner, models: Path
) -> None:
    seed = kl.run(a_spec(models / "f32.gguf", models / "seed.gguf"), bench)
    assert seed.verdict is Verdict.FAIL, seed
    rounded = kl.run(a_spec(models / "f32.gguf", models / "f16.gguf", calibrate=3.0), bench)
    assert rounded.verdict is Verdict.FAIL, rounded
    itself = kl.run(a_spec(models / "f32.gguf", models / "f32.gguf", calibrate=3.0), bench)
    assert itself.verdict is Verdict.PASS, itself


def test_nan_fails_against_numbers_and_is_invalid_against_nan(bench: Runner, models: Path) -> None:
    assert kl.run(a_spec(models / "f32.gguf", models / "nan.gguf"), bench).verdict is Verdict.FAIL
    both = kl.run(a_spec(models / "nan.gguf", models / "nan.gguf"), bench)
    assert both.verdict is Verdict.INVALID
    assert "gives no numbers" in both.reason


def test_a_base_that_is_gone_or_cut_short_is_never_a_pass(bench: Runner, models: Path, tmp_path: Path) -> None:
    spec = a_spec(models / "f32.gguf", models / "f32.gguf")
    assert kl.run(spec, bench).verdict is Verdict.PASS
    (kept,) = tmp_path.rglob("kl-*.base")
    kept.write_bytes(kept.read_bytes()[:100_000])
    other = a_spec(models / "f32.gguf", models / "f16.gguf", limits=Limits(mean=1, same_top=1))
    cut = kl.run(other, bench)
    size = kept.stat().st_size
    if size == 100_000:
        assert cut.verdict is Verdict.INVALID
        assert "failed reading log-probs" in cut.reason
    else:
        assert (cut.verdict, size) == (Verdict.PASS, base_size(4, 256, 288)), "a bench that knows sizes makes it again"


def test_a_text_that_is_too_short_is_invalid_with_the_reason(bench: Runner, models: Path) -> None:
    judgement = kl.run(a_spec(models / "f32.gguf", models / "f32.gguf", text=b"x" * 300), bench)
    assert judgement.verdict is Verdict.INVALID
    assert "the text is too short" in judgement.reason
    few = kl.run(a_spec(models / "f32.gguf", models / "f32.gguf", text=b"x" * 600, chunks=8), bench)
    assert few.verdict is Verdict.INVALID
    assert "2 chunks of 256, not 8" in few.reason


def test_drift_compares_at_every_context(bench: Runner, models: Path) -> None:
    contexts = (256, 1024, 2048)
    same = a_spec(models / "f32.gguf", models / "f32.gguf", batch=512, ubatch=512, chunks=2)
    passed = drift.run(drift.DriftSettings(kl=same, contexts=contexts), bench)
    assert passed.verdict is Verdict.PASS, passed
    assert [list(row[:2]) for row in drift.table_of(passed).rows] == [[str(context), "PASS"] for context in contexts]
    other = a_spec(models / "f32.gguf", models / "seed.gguf", batch=512, ubatch=512, chunks=2)
    assert drift.run(drift.DriftSettings(kl=other, contexts=contexts), bench).verdict is Verdict.FAIL
