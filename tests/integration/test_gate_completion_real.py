"""The completion and engaged gates on a real llama.cpp with tiny models: no wrong verdict, whatever the tools lose.

Set PATCHSTACK_LLAMA_BIN to the `bin` of a CPU build (`llama-completion`, `llama-server`). PATCHSTACK_GATE_RUNS is how
often the gate is run under load (default 20).
"""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from patchstack.gates.judgement import Judgement
from patchstack.gates.kinds import engaged
from patchstack.gates.kinds.completion import NO_REFERENCE, CompletionSettings, TranscriptState, run
from patchstack.llama.prompt import Prompting
from patchstack.llama.transcript import md5_of
from patchstack.observe.protocol import Model
from patchstack.observe.runner import Runner
from patchstack.verdict import Verdict
from tests.support.programs import a_bench
from tests.support.tiny_gguf import ARCHITECTURES, Architecture, need_gguf, write_model

BIN = os.environ.get("PATCHSTACK_LLAMA_BIN")
RUNS = int(os.environ.get("PATCHSTACK_GATE_RUNS", "20"))
pytestmark = pytest.mark.skipif(not BIN, reason="PATCHSTACK_LLAMA_BIN names no build of llama.cpp")

ENV = (("GGML_NO_BACKTRACE", "1"),)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Runner]:
    need_gguf()
    assert BIN
    with a_bench(Path(BIN), tmp_path, kind="completion/1") as found:
        yield found


def a_spec(
    tmp_path: Path, architecture: Architecture, *states: TranscriptState, seed: int = 1, tokens: int = 48
) -> CompletionSettings:
    path = tmp_path / f"{architecture}-{seed}.gguf"
    write_model(path, architecture, seed=seed)
    prompting = Prompting(
        model=Model(name="tiny", path=str(path)), prompt="The capital of France is", tokens=tokens, env=ENV, seconds=60
    )
    return CompletionSettings(prompting=prompting, states=states or (TranscriptState(),))


def recorded(spec: CompletionSettings, bench: Runner) -> str:
    """Return the digest of the build's current output."""
    found = run(spec, bench)
    assert (found.verdict, found.reason.split(" (")[0]) == (Verdict.INVALID, NO_REFERENCE), found
    return found.actual


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_build_gives_its_own_transcript_again_and_another_models_weights_do_not(
    architecture: Architecture, tmp_path: Path, bench: Runner
) -> None:
    spec = a_spec(tmp_path, architecture)
    reference = TranscriptState(expect=recorded(spec, bench))
    bench.again = True
    assert run(replace(spec, states=(reference,), runs=3), bench).verdict is Verdict.PASS
    other = a_spec(tmp_path, architecture, reference, seed=2)
    assert run(other, bench).verdict is Verdict.FAIL


def _burn() -> None:
    while True:
        pass


def test_under_load_output_is_lost_and_no_verdict_is_wrong(tmp_path: Path, bench: Runner) -> None:
    spec = a_spec(tmp_path, "llama", tokens=6)
    expect = recorded(spec, bench)
    right, wrong = TranscriptState(expect=expect), TranscriptState(expect=md5_of(b"something else"))
    bench.again = True
    burning = [multiprocessing.Process(target=_burn, daemon=True) for _ in range(os.cpu_count() or 2)]
    for one in burning:
        one.start()
    try:
        held = [run(replace(spec, states=(right,)), bench) for _ in range(RUNS)]
        broken = [run(replace(spec, states=(wrong,)), bench) for _ in range(max(3, RUNS // 10))]
    finally:
        for one in burning:
            one.kill()
    verdicts = Counter(one.verdict for one in held)
    assert verdicts[Verdict.FAIL] == 0, [one for one in held if one.verdict is Verdict.FAIL]
    assert verdicts[Verdict.PASS] >= 0.9 * RUNS, verdicts
    assert Counter(one.verdict for one in broken)[Verdict.PASS] == 0
    assert Verdict.FAIL in {one.verdict for one in broken}
    assert all(expect == one.actual for one in held if one.verdict is Verdict.PASS)


def test_a_truncated_model_is_not_judged_until_it_is_known_to_be_the_right_one(tmp_path: Path, bench: Runner) -> None:
    spec = a_spec(tmp_path, "llama", TranscriptState(expect=md5_of(b"x")))
    path = Path(spec.prompting.model.path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    found = run(spec, bench)
    assert found.verdict is Verdict.INVALID
    assert "cannot load the model" in found.reason or "without an error message" in found.reason


def test_a_model_in_a_chat_template_is_prompted_once_and_does_not_hang(tmp_path: Path, bench: Runner) -> None:
    spec = a_spec(tmp_path, "llama", tokens=8)
    chat = tmp_path / "chat.gguf"
    write_model(chat, "llama", seed=1, chat=True)
    prompting = replace(spec.prompting, model=Model(name="tiny", path=str(chat)))
    templated = recorded(replace(spec, prompting=prompting), bench)
    assert templated != recorded(spec, bench), "a reference belongs to its path"


def test_requests_at_once_are_held_against_one_alone(tmp_path: Path, bench: Runner) -> None:
    spec = a_spec(tmp_path, "qwen3moe", tokens=24)
    prompting = replace(spec.prompting, context=512)
    found = run(replace(spec, prompting=prompting, parallel=4), bench)
    assert found.verdict is not Verdict.FAIL, found
    states = found.details["states"]
    assert isinstance(states, list)
    state = states[0]
    assert isinstance(state, dict)
    assert (state["requests"], state["tokens"]) == (4, 24), found


def test_a_switch_that_is_not_known_does_nothing(tmp_path: Path, bench: Runner) -> None:
    spec = a_spec(tmp_path, "llama", tokens=6)
    completion = spec.prompting.completion()
    found: Judgement = engaged.run(
        engaged.EngagedSettings(program=completion, on=(("LLAMA_NO_SUCH_SWITCH", "1"),), mark="no such switch"), bench
    )
    assert (found.verdict, found.reason) == (Verdict.FAIL, "on leaves no mark: the switch does nothing here")
