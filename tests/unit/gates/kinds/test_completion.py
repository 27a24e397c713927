"""Gate kind completion: the end of a run, the references of a transcript, and runs that cannot be judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from patchstack.engine.protocol import Ending
from patchstack.gates.judgement import Judgement, verdict_of
from patchstack.gates.kinds import completion
from patchstack.gates.kinds.completion import CompletionSettings, TranscriptState, run
from patchstack.llama.prompt import Prompting
from patchstack.llama.transcript import md5_of, sha256_of
from patchstack.observe.exit_status import fault_of
from patchstack.observe.protocol import Attempt, Complete, Invocation, Model, Observation, Observed
from patchstack.verdict import Verdict
from tests.support.answering import FakeObserver
from tests.support.checkout import DATA
from tests.support.programs import a_bench, program

LLAMA = DATA / "llama"
WHOLE = (LLAMA / "completion.stderr").read_bytes()
TEXT = (LLAMA / "completion.stdout").read_bytes()
MODEL = Model(name="tiny", path="/models/tiny.gguf")
PROMPTING = Prompting(model=MODEL, prompt="The capital of France is", tokens=48)


def an_observation(stdout: bytes = TEXT, stderr: bytes = WHOLE, code: int = 0) -> Observation:
    return Observation(key="k", ending=Ending.EXITED, code=code, stdout=stdout, stderr=stderr, seconds=1.0)


class Scripted(FakeObserver):
    """An observer with prepared results, by the run's environment, in order; the last one repeats."""

    def __init__(self, by_switch: Mapping[str, list[Observation]]) -> None:
        super().__init__()
        self.by_switch = {switch: list(given) for switch, given in by_switch.items()}
        self.invocations: list[Invocation] = []
        self.salts: list[str] = []

    def observe(self, invocation: Invocation, *, complete: Complete, tries: int = 3, salt: str = "") -> Observed:
        self.invocations.append(invocation)
        self.salts.append(salt)
        given = self.by_switch[",".join(f"{name}={value}" for name, value in sorted(invocation.env.items()))]
        attempts: list[Attempt] = []
        for _ in range(tries):
            seen = given.pop(0) if len(given) > 1 else given[0]
            complaint = complete(seen)
            attempts.append(Attempt(what=invocation.what, key="k", code=seen.code, seconds=1, complaint=complaint))
            if complaint is None:
                return Observed(observation=seen, attempts=tuple(attempts))
        return Observed(observation=None, attempts=tuple(attempts))


def judged(*seen: Observation, expect: str | None = None, prompting: Prompting = PROMPTING, **more: int) -> Judgement:
    spec = CompletionSettings(prompting=prompting, states=(TranscriptState(expect=expect),), runs=more.get("runs", 1))
    return run(spec, Scripted({"": list(seen)}))


# What is run


def test_the_command_line_is_the_canonical_one_and_the_environment_is_the_entrys() -> None:
    bench = Scripted({"GGML_NO_BACKTRACE=1,LLAMA_KV_PAGED=1": [an_observation()]})
    prompting = replace(PROMPTING, env=(("GGML_NO_BACKTRACE", "1"),), args=("-t", "2"))
    run(
        CompletionSettings(
            prompting=prompting, states=(TranscriptState(name="paged", env=(("LLAMA_KV_PAGED", "1"),)),)
        ),
        bench,
    )
    (invocation,) = bench.invocations
    assert invocation.program == "llama-completion"
    assert " ".join(invocation.args) == (
        "-m {model:tiny} -ngl 99 -fa on -c 4096 --temp 0 --seed 1 -n 48 -p The capital of France is "
        "-fit off --perf -t 2"
    )
    assert dict(invocation.env) == {"GGML_NO_BACKTRACE": "1", "LLAMA_KV_PAGED": "1"}
    assert "-no-cnv" not in invocation.args


# What is judged


def test_the_reference_s_transcript_passes_and_another_fails_with_where_they_part() -> None:
    passed = judged(an_observation(), expect=md5_of(TEXT))
    assert (passed.verdict, passed.actual) == (Verdict.PASS, md5_of(TEXT))
    state = TranscriptState(expect=sha256_of(TEXT), transcript=TEXT)
    other = TEXT.replace(b"cbT5", b"cbU5")
    failed = run(CompletionSettings(prompting=PROMPTING, states=(state,)), Scripted({"": [an_observation(other)]}))
    assert failed.verdict is Verdict.FAIL
    assert failed.actual == sha256_of(other)
    assert f"first difference at character {TEXT.index(b'T5')}: after 'e capital of France iscb', 'T5" in failed.reason
    assert "became 'U5" in failed.reason
    assert failed.details["changed"] == [""]


def test_without_a_reference_nothing_passes_and_the_digest_is_told() -> None:
    found = judged(an_observation())
    assert (found.verdict, found.reason) == (Verdict.INVALID, "no reference yet: gate record")
    assert found.actual == md5_of(TEXT)


@pytest.mark.parametrize(
    ("seen", "complaint"),
    [
        (an_observation(stderr=b""), "its output was lost"),
        (an_observation(b"", b""), "its output was lost"),
        (
            an_observation(stderr=WHOLE.replace(b"graphs reused =         46\n", b"graphs reused =         4")),
            "was lost",
        ),
        (an_observation(TEXT + b"common_perf_print:    graphs reused =         46\n", b""), "its output was lost"),
        (an_observation(b""), "the transcript is empty"),
        (an_observation(b"\n\n"), "the transcript is empty"),
        (an_observation(stderr=WHOLE.replace(b"    47 runs", b"     0 runs")), "the model ended at once"),
        (an_observation(code=137), "it was ended by SIGKILL (exit code 137)"),
        (an_observation(code=143), "it was ended by SIGTERM"),
        (an_observation(code=127, stderr=b"x: error while loading shared libraries: libggml.so.0\n"), "be started"),
        (an_observation(code=1, stderr=b""), "it exited with 1 without an error message"),
        (an_observation(code=1, stderr=b"error: invalid argument: --nope\n"), "does not accept its arguments"),
        (an_observation(code=134, stderr=b"CUDA error: out of memory\n"), "it ran out of memory"),
    ],
)
def test_what_cannot_be_judged_is_tried_again_counted_and_neither_passes_nor_fails(
    seen: Observation, complaint: str
) -> None:
    found = judged(seen, expect=md5_of(TEXT))
    assert found.verdict is Verdict.INVALID
    assert complaint in found.reason
    assert "(5 of 5 tries could not be judged)" in found.reason
    assert len(found.attempts) == 5
    recovered = judged(seen, seen, an_observation(), expect=md5_of(TEXT))
    assert recovered.verdict is Verdict.PASS
    assert recovered.details["tries_lost"] == 2


@pytest.mark.parametrize("code", [134, 139, 136, 132, 135])
def test_a_crash_fails_before_its_output_is_looked_at_and_names_the_assertion(code: int) -> None:
    backtrace = b"#0  0x00007f ggml_abort\n"
    stderr = b"0.00.1 I loading\n/src/ggml/src/ggml.c:77: GGML_ASSERT(ne0 == 4) failed\n"
    found = judged(an_observation(TEXT + backtrace, stderr, code), expect=md5_of(TEXT))
    assert found.verdict is Verdict.FAIL
    assert "GGML_ASSERT(ne0 == 4) failed" in found.reason
    assert f"exit code {code}" in found.reason
    assert len(found.attempts) == 1, "a crash is an answer: it is not tried away"


def test_a_crash_that_left_its_backtrace_on_stdout_alone_is_told_by_it() -> None:
    found = judged(an_observation(b"The cap\n#0  0x00007f in ggml_abort ()\n", b"", 134))
    assert found.reason == "it crashed with SIGABRT (exit code 134): #0  0x00007f in ggml_abort ()"


def test_words_of_a_transcript_do_not_excuse_a_crash() -> None:
    found = judged(an_observation(b"CUDA error: out of memory\n", b"", 139))
    assert found.verdict is Verdict.FAIL


def test_a_model_that_cannot_be_loaded_is_the_builds_fault_only_where_the_model_is_known_to_be_the_right_one() -> None:
    stderr = (LLAMA / "completion-truncated.stderr").read_bytes()
    seen = an_observation(b"", stderr, 1)
    unknown, known = fault_of(seen, pinned=False), fault_of(seen, pinned=True)
    assert unknown is not None
    assert known is not None
    assert (verdict_of(unknown), verdict_of(known)) == (Verdict.INVALID, Verdict.FAIL)
    assert "is not within the file bounds" in unknown.reason


def test_the_complaint_is_the_one_that_names_a_cause() -> None:
    silent, told = an_observation(b"", b"", 1), an_observation(b"", b"1.1 E error loading model: bad magic\n", 1)
    found = judged(silent, told, silent, silent, silent)
    assert found.reason.startswith("it cannot load the model: error loading model: bad magic")


def test_every_run_must_give_the_same_and_the_reason_counts() -> None:
    other = TEXT.replace(b"5", b"6")
    found = judged(an_observation(), an_observation(other), an_observation(), expect=md5_of(TEXT), runs=3)
    assert found.verdict is Verdict.FAIL
    assert f"3 runs gave 2 transcripts: 2 times {md5_of(TEXT)}, 1 times {md5_of(other)}" in found.reason
    held = judged(an_observation(), expect=md5_of(TEXT), runs=3)
    assert (held.verdict, held.reason) == (Verdict.PASS, "the reference's transcript, 3 times of 3")


def test_repetitions_are_observations_of_their_own() -> None:
    bench = Scripted({"": [an_observation()]})
    run(CompletionSettings(prompting=PROMPTING, runs=3), bench)
    assert bench.salts == ["", "run 2", "run 3"]


def test_a_run_that_differs_fails_though_a_later_one_could_not_be_judged() -> None:
    lost = an_observation(stderr=b"")
    found = judged(an_observation(TEXT + b"x"), lost, expect=md5_of(TEXT), runs=2)
    assert found.verdict is Verdict.FAIL


# States

OFF, ON = TranscriptState(name="off"), TranscriptState(name="on", env=(("S", "1"),), same_as="off")


def compared(off: Observation, on: Observation, *states: TranscriptState) -> Judgement:
    spec = CompletionSettings(prompting=PROMPTING, states=states or (OFF, ON))
    return run(spec, Scripted({"": [off], "S=1": [on]}))


def test_on_must_be_off_only_where_a_reference_says_so() -> None:
    other = an_observation(TEXT.replace(b"T", b"Q"))
    assert compared(an_observation(), an_observation()).verdict is Verdict.PASS
    apart = compared(an_observation(), other)
    assert apart.verdict is Verdict.FAIL
    assert apart.reason.startswith("on: not the transcript of off; first difference at character 0: 'The capital")
    own = (
        TranscriptState(name="off", expect=md5_of(TEXT)),
        TranscriptState(name="on", env=ON.env, expect=md5_of(other.stdout)),
    )
    assert compared(an_observation(), other, *own).verdict is Verdict.PASS


def test_a_state_with_nothing_to_be_held_against_is_not_judged_beside_one_that_passes() -> None:
    found = compared(
        an_observation(), an_observation(), TranscriptState(name="off", expect=md5_of(TEXT)), replace(ON, same_as=None)
    )
    assert (found.verdict, found.reason) == (Verdict.INVALID, "on: no reference yet: gate record")


def test_one_state_that_fails_outweighs_one_that_could_not_be_judged() -> None:
    lost = an_observation(stderr=b"")
    states = (
        TranscriptState(name="off", expect=md5_of(b"else")),
        TranscriptState(name="on", env=ON.env, expect=md5_of(TEXT)),
    )
    assert compared(an_observation(), lost, *states).verdict is Verdict.FAIL
    assert compared(lost, an_observation()).verdict is Verdict.INVALID


def test_a_state_is_not_compared_with_a_crash() -> None:
    found = compared(an_observation(code=134, stderr=b"a.c:1: boom\n"), an_observation())
    assert found.verdict is Verdict.FAIL
    states = {one["state"]: one["verdict"] for one in found.details["states"]}  # type: ignore[union-attr,index]
    assert states == {"off": "FAIL", "on": "INVALID"}


def a_completion(tmp_path: Path, script: str, *, seconds: int = 20, tries: int = 2) -> Judgement:
    """Return the gate's result for a program with that script, on this host."""
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF")
    program(tmp_path / "bin", "llama-completion", script)
    model = Model(name="tiny", path=str(tmp_path / "tiny.gguf"))
    prompting = replace(PROMPTING, model=model, seconds=seconds, tries=tries)
    with a_bench(tmp_path / "bin", tmp_path) as bench:
        return run(CompletionSettings(prompting=prompting, states=(TranscriptState(expect=md5_of(b"hello\n")),)), bench)


SAYS_IT_IS_DONE = 'echo "common_perf_print:    graphs reused =  5" >&2'


@pytest.mark.parametrize(
    ("script", "verdict", "reason"),
    [
        (f"echo hello; {SAYS_IT_IS_DONE}", Verdict.PASS, "the reference's transcript"),
        (f"echo hallo; {SAYS_IT_IS_DONE}", Verdict.FAIL, "the transcript differs"),
        ("echo hello", Verdict.INVALID, "its output was lost"),
        ("true", Verdict.INVALID, "its output was lost"),
        (f"{SAYS_IT_IS_DONE}", Verdict.INVALID, "the transcript is empty"),
        ("kill -SEGV $$", Verdict.FAIL, "it crashed with SIGSEGV"),
        ("kill -TERM $$", Verdict.INVALID, "it was ended by SIGTERM"),
        (f"cat; echo hello; {SAYS_IT_IS_DONE}", Verdict.PASS, "the reference's transcript"),
        ("echo 'x: symbol lookup error: no y' >&2; exit 127", Verdict.INVALID, "it could not be started"),
    ],
)
def test_a_program_s_end_and_words_make_the_verdict(script: str, verdict: Verdict, reason: str, tmp_path: Path) -> None:
    found = a_completion(tmp_path, script)
    assert found.verdict is verdict, found
    assert reason in found.reason


@pytest.mark.parametrize("hang", ["sleep 60", "kill -STOP $$", "trap '' TERM; while :; do sleep 1; done"])
def test_a_program_that_hangs_is_ended_in_time_and_not_judged(hang: str, tmp_path: Path) -> None:
    found = a_completion(tmp_path, f"echo hello; {SAYS_IT_IS_DONE}; {hang}", seconds=1)
    assert found.verdict is Verdict.INVALID
    assert "it took over 1 s and was ended" in found.reason


def test_a_program_that_prints_without_end_is_ended_and_not_judged(tmp_path: Path) -> None:
    found = a_completion(tmp_path, f"{SAYS_IT_IS_DONE}; yes hello", tries=1)
    assert found.verdict is Verdict.INVALID
    assert "it printed over 64 MiB and was ended" in found.reason


def test_the_verdict_is_drawn_anew_from_what_is_kept(tmp_path: Path) -> None:
    a_completion(tmp_path, f"echo hello; {SAYS_IT_IS_DONE}; echo run >>{tmp_path}/runs")
    model = Model(name="tiny", path=str(tmp_path / "tiny.gguf"))
    prompting = replace(PROMPTING, model=model)
    with a_bench(tmp_path / "bin", tmp_path) as bench:
        found = run(CompletionSettings(prompting=prompting, states=(TranscriptState(expect="0" * 32),)), bench)
    assert found.verdict is Verdict.FAIL
    assert (tmp_path / "runs").read_text() == "run\n", "the reference changed, and nothing was run again"


def test_the_kind_and_its_version_are_part_of_what_is_kept() -> None:
    assert completion.KIND.key == "completion/1"
