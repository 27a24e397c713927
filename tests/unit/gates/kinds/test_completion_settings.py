"""Settings of the gate completion: what a suite may contain, and what is refused because it would prove nothing."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from patchstack.gates.kinds.completion import KIND, CompletionSettings, TranscriptState, settings_problems
from patchstack.llama.prompt import Prompting, prompting_problems
from patchstack.llama.transcript import md5_of
from patchstack.observe.protocol import Model
from patchstack.workspace import read_yaml
from patchstack.workspace.node import Node
from tests.support.checkout import DATA

LLAMA = DATA / "llama"
TEXT = (LLAMA / "completion.stdout").read_bytes()
MODEL = Model(name="tiny", path="/models/tiny.gguf")
PINNED = replace(MODEL, sha256="0" * 64)
PROMPTING = Prompting(model=MODEL, prompt="The capital of France is", tokens=48)
OFF, ON = TranscriptState(name="off"), TranscriptState(name="on", env=(("S", "1"),), same_as="off")


@pytest.mark.parametrize(
    ("states", "problem"),
    [
        ((), "the list is empty"),
        ((replace(ON, same_as="of"),), "there is no state 'of' for same_as"),
        ((replace(ON, same_as="on"),), "same_as names the state itself"),
        ((OFF, replace(ON, env=())), "has the same environment as off, so a run would be compared with itself"),
        (
            (OFF, ON, TranscriptState(name="x", same_as="on")),
            "same_as names on, which also has same_as; name off instead",
        ),
        ((TranscriptState(expect="d41d8cd98f00b204e9800998ecf8427e"),), "is the digest of an empty text"),
        ((TranscriptState(expect=hashlib.sha256(b"\n").hexdigest()),), "is the digest of an empty text"),
        ((TranscriptState(expect="12"),), "is not a digest"),
        ((TranscriptState(expect=md5_of(TEXT), transcript=b"other"),), "does not have the expected digest"),
    ],
)
def test_states_that_make_no_sense_are_refused(states: tuple[TranscriptState, ...], problem: str) -> None:
    (found,) = settings_problems(CompletionSettings(prompting=PROMPTING, states=states))
    assert problem in found[1]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"prompt": " "}, "the prompt is empty"),
        ({"prompt": "see {work}"}, "{work} would be replaced by a path"),
        ({"args": ("--no-perf",)}, "removes the line that shows that no output was lost"),
        ({"args": ("-n", "9")}, "use tokens: instead of -n"),
        ({"tokens": 4096}, "do not fit into a context of 4096"),
        ({"env": (("LD_PRELOAD", "x"),)}, "LD_PRELOAD is set by the engine"),
        ({"env": (("A B", "x"),)}, "is not a variable name"),
        ({"flash_attention": "maybe"}, "is not on, off or auto"),
        ({"sentinel": "("}, "is not a regular expression"),
        ({"sentinel": "x*"}, "matches every text"),
    ],
)
def test_prompts_that_cannot_be_put_are_refused(change: dict[str, object], problem: str) -> None:
    (found,) = prompting_problems(replace(PROMPTING, **change))  # type: ignore[arg-type]
    assert problem in found[1]


# Sentinels and texts


def settings(text: str, tmp_path: Path) -> tuple[CompletionSettings, list[str]]:
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    problems: list[str] = []
    spec = KIND.read(Node(read_yaml(path), path, "", problems), {"tiny": PINNED})
    return spec, [problem.removeprefix(f"{path}:") for problem in problems]


def test_an_entry_of_a_suite_is_read(tmp_path: Path) -> None:
    spec, problems = settings(
        """\
model: tiny
prompt: The capital of France is
tokens: 48
gpu_layers: 0
args: [-md, "{model:tiny}"]
env: {GGML_NO_BACKTRACE: 0}
states:
  paged: {env: {LLAMA_KV_PAGED: 1}, expect: 8CB0CE23777BF55F92F63D0292C756B0}
  off: {expect: 07db32c2bcb78d17a43ed18bc22705cd}
  stable: {env: {LLAMA_PAGED_DECODE_STABLE: "1"}, same_as: off}
runs: 2
tries: 3
""",
        tmp_path,
    )
    assert problems == []
    assert spec.prompting == Prompting(
        model=PINNED,
        prompt="The capital of France is",
        tokens=48,
        gpu_layers=0,
        args=("-md", "{model:tiny}"),
        models=(PINNED,),
        env=(("GGML_NO_BACKTRACE", "0"),),
        tries=3,
    )
    assert spec.prompting.completion().models == (PINNED,)
    assert spec.runs == 2
    assert [(state.name, state.env, state.expect, state.same_as) for state in spec.states] == [
        ("paged", (("LLAMA_KV_PAGED", "1"),), "8cb0ce23777bf55f92f63d0292c756b0", None),
        ("off", (), "07db32c2bcb78d17a43ed18bc22705cd", None),
        ("stable", (("LLAMA_PAGED_DECODE_STABLE", "1"),), None, "off"),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("model: tin\nprompt: x\n", "1: model: there is no model 'tin', perhaps you meant tiny"),
        ("model: tiny\n", "1: prompt is missing"),
        ("model: tiny\nprompt: x\nexpct: y\n", "3: expct: unknown key, perhaps you meant expect"),
        ("model: tiny\nprompt: x\nenv: {A: true}\n", "3: env: the value of A is not text; put it in quotes"),
        ("model: tiny\nprompt: x\nenv: {A: 00}\n", "3: env: the value of A is not text; put it in quotes"),
        ("model: tiny\nprompt: x\nenv: {LD_PRELOAD: y}\n", "3: env: LD_PRELOAD is set by the engine"),
        ("model: tiny\nprompt: x\ntokens: 0\n", "3: tokens: must be from 1 to "),
        ("model: tiny\nprompt: x\ncontext: 32\n", "48 do not fit into a context of 32"),
        ("model: tiny\nprompt: x\nargs: [-n, '5']\n", "3: args: use tokens: instead of -n"),
        ("model: tiny\nprompt: x\nargs: ['{model:other}']\n", "3: args: there is no model 'other'"),
        ("model: tiny\nprompt: x\nsentinel: '['\n", "3: sentinel: '[' is not a regular expression"),
        ("model: tiny\nprompt: x\nexpect: d41d8cd98f00b204e9800998ecf8427e\n", "3: expect: d41d8cd98f00b204e98"),
        ("model: tiny\nprompt: x\nstates: {}\n", "3: states: the list is empty, so nothing would be checked"),
        ("model: tiny\nprompt: x\nstates: {a: {exp: b}}\n", "3: states.a.exp: unknown key"),
        ("model: tiny\nprompt: x\nexpect: " + "a" * 32 + "\nstates: {a: {}}\n", "each state has its own expect"),
        ("model: tiny\nprompt: x\nparallel: 1\n", "3: parallel: 1 request is not concurrent"),
        (
            "model: tiny\nprompt: x\nparallel: 2\nexpect: " + "a" * 32,
            "3: parallel: concurrent requests have no reference",
        ),
    ],
)
def test_an_entry_that_cannot_be_used_is_complained_about_with_its_line(
    text: str, problem: str, tmp_path: Path
) -> None:
    _, problems = settings(text, tmp_path)
    assert len(problems) == 1, problems
    assert problem in problems[0]


# On a real bench
