"""minillm as llama.cpp's tools: its output has the form of the real programs' output, its results are computed, and it
fails on request.

The output of the real programs is in `tests/data/llama/captured`; `capture.sh` wrote it. A shape is a line without its
numbers: how many decimals a number has belongs to the shape, its value does not.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import subprocess
from itertools import groupby
from typing import Any

import pytest

from tests.support.checkout import DATA
from tests.support.minillm import PROMPT, Programs, built_upstream

CAPTURED = DATA / "llama" / "captured"

ROWS = ("-fit", "off", "-c", "512", "-npp", "32,64", "-ntg", "8", "-npl", "1,2", "--perf", "-lv", "4")
SENTINEL = "common_perf_print:    graphs reused ="

pytestmark = pytest.mark.skipif(
    shutil.which("cmake") is None or shutil.which("c++") is None, reason="needs cmake and a C++ compiler"
)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return Programs(built_upstream(tmp_path_factory), tmp_path_factory.mktemp("models"))


def captured(name: str) -> str:
    return (CAPTURED / name).read_text(encoding="utf-8")


def shape(line: str) -> str:
    """Return a line without its time and with its numbers as `N` or, with three decimals, `N.###`."""
    line = re.sub(r"\d\.\d\d\.\d{3}\.\d{3} (?=[IWE] )", "TIME ", line)
    line = re.sub(r"\binf\b|-?\bnan\b", "0.00", line)
    line = re.sub(r"-?\d+(?:\.(\d+))?", lambda found: "N" + ("." + "#" * len(found[1]) if found[1] else ""), line)
    return re.sub(r" +", " ", line)


def shapes(text: str, only: str = "") -> list[str]:
    return [shape(line) for line in text.splitlines() if re.search(only, line)]


# -- the shape of it -------------------------------------------------------------------------------------------------


def test_a_completion_looks_like_a_real_one(programs: Programs) -> None:
    ours, real = programs.complete(), captured("completion.out")
    assert ours.returncode == 0
    text = ours.stdout.decode()
    for output in (text, real):
        assert re.fullmatch(re.escape(PROMPT) + r"[ -~]{24}\n\n", output)
    perf = r"common_perf_print|generate:|sampler seed:|llama_completion: "
    theirs = [line for line in shapes(captured("completion.err"), perf) if "threadpool" not in line]
    assert shapes(ours.stderr.decode(), perf) == theirs
    assert SENTINEL in ours.stderr.decode().splitlines()[-1]


def test_what_cannot_be_loaded_or_understood_is_said_as_there(programs: Programs) -> None:
    missing = programs.run("llama-completion", "-m", "none.gguf", "-fit", "off", "-n", "1", "-p", "a", "--perf")
    last = "failed to load model|unable to create context"
    assert shapes(missing.stderr.decode(), last) == [
        line for line in shapes(captured("completion-no-model.err"), last) if "failed to load model from" not in line
    ]
    assert (missing.returncode, missing.stdout) == (1, b"")
    unknown = programs.run("llama-completion", "-m", "seed-1.mllm", "-p", "a", "--none")
    assert unknown.returncode == 1
    assert unknown.stderr.decode().splitlines()[0] == captured("completion-no-option.err").splitlines()[0]


def test_a_perplexity_and_a_divergence_look_like_real_ones(programs: Programs) -> None:
    last = (
        r"llama_perf_context_print: |memory_breakdown|Final estimate|kl_divergence: computing|perplexity: (saving|calc)"
    )
    for ours, name in ((programs.base(), "perplexity"), (programs.diverge(1), "kl"), (programs.diverge(2), "kl-other")):
        assert ours.returncode == 0
        assert shapes(ours.stdout.decode()) == shapes(captured(f"{name}.out")), name
        theirs = shapes(captured(f"{name}.err"), last)
        assert shapes(ours.stderr.decode(), last) == theirs, name
        assert shape(ours.stderr.decode().splitlines()[-1]) == theirs[-1]
        assert "- Host" in theirs[-1]


def test_a_base_has_the_size_of_a_real_one(programs: Programs) -> None:
    programs.base()
    # 20 bytes, the tokens, and for each row two floats and the values in 16 bits each, filled up to an even number
    assert (programs.work / "base.kl").stat().st_size == 20 + 4 * 128 * 3 + 3 * 63 * (258 + 4) * 2


@pytest.mark.parametrize("content", [None, b"", b"_logits_", b"something else"])
def test_a_base_that_cannot_be_used_is_exit_code_0_and_no_statistics(programs: Programs, content: bytes | None) -> None:
    if content is not None:
        (programs.work / "bad.kl").write_bytes(content)
    ours = programs.diverge(1, base="none.kl" if content is None else "bad.kl")
    assert (ours.returncode, ours.stdout) == (0, captured("kl-no-base.out").encode())
    assert " E kl_divergence: failed to open none.kl\n" in captured("kl-no-base.err")
    assert re.search(r" E kl_divergence: .*(none|bad)\.kl", ours.stderr.decode())
    assert "- Host" in ours.stderr.decode().splitlines()[-1]


def test_a_text_that_is_too_short_is_exit_code_0_and_no_perplexity(programs: Programs) -> None:
    ours = programs.run("llama-perplexity", "-m", "seed-1.mllm", "-p", "too short", "-c", "128", "-b", "128")
    assert ours.returncode == 0
    assert b"PPL" not in ours.stdout + ours.stderr
    only = r" E perplexity: "
    assert shapes(ours.stderr.decode(), only) == shapes(captured("perplexity-short.err"), only)


def test_the_rows_of_the_batched_benchmark_look_like_real_ones(programs: Programs) -> None:
    ours = programs.run("llama-batched-bench", "-m", "seed-1.mllm", *ROWS, "--output-format", "jsonl")
    mine, theirs = (
        [json.loads(line) for line in text.splitlines() if line]
        for text in (ours.stdout.decode(), captured("batched-bench-jsonl.out"))
    )
    assert [list(row) for row in mine] == [list(row) for row in theirs]
    plan = ("pp", "tg", "pl", "n_kv")
    assert [[row[key] for key in plan] for row in mine] == [[row[key] for key in plan] for row in theirs]
    assert all(row["speed_tg"] == pytest.approx(row["pl"] * row["tg"] / row["t_tg"], rel=0.01) for row in mine)
    perf = r"llama_perf_context_print: "
    assert shapes(ours.stderr.decode(), perf) == shapes(captured("batched-bench-jsonl.err"), perf)
    table = programs.run("llama-batched-bench", "-m", "seed-1.mllm", *ROWS)
    assert shapes(table.stdout.decode()) == shapes(captured("batched-bench-md.out"))
    # it silently omits what does not fit
    crowded = programs.run("llama-batched-bench", "-m", "seed-1.mllm", *ROWS, "-npl", "16", "--output-format", "jsonl")
    assert len(crowded.stdout.split()) == len(ours.stdout.split())


def ops_shapes(text: str) -> list[str]:
    """Return the lines of test-backend-ops without names of cases and devices; repeated lines only once."""
    for pattern, stands_for in (
        (r"(Device description: ).*", r"\1ANY"),
        (r"^((?:\[\w+\] .*)?  )\w+\(.*\)", r"\1OP(CASE)"),
        (r"^((?:\[\w+\] .*)?\"CPU\",)\"\w+\",\"[^\"]*\"", r'\1"OP","CASE"'),
        (r"^\[\w+\] ", "[OP] "),
    ):
        text = re.sub(pattern, stands_for, text, flags=re.MULTILINE)
    return [line for line, _ in groupby(map(shape, text.splitlines()))]


@pytest.mark.parametrize(
    ("arguments", "fault", "name", "code"),
    [
        (("test", "-b", "CPU", "-o", "ARGMAX,L2_NORM", "-j", "1"), "", "backend-ops", 0),
        (("test", "-b", "CPU", "-o", "NONE_SUCH", "-j", "1"), "", "backend-ops-no-case", 0),
        (("test", "-b", "CUDA0", "-o", "ARGMAX", "-j", "1"), "", "backend-ops-skipped", 0),
        (("test", "-b", "CPU", "-o", "ARGMAX(n=1)", "-j", "1"), "drop-op", "backend-ops-unsupported", 0),
        (("test", "-b", "CPU", "-o", "ARGMAX", "-j", "1", "--output", "csv"), "", "backend-ops-csv", 0),
        (("support", "-b", "CPU", "-o", "ARGMAX,L2_NORM", "--output", "csv"), "", "backend-ops-support", 0),
        (("support", "-b", "CPU", "-o", "ARGMAX"), "", "backend-ops-support-console", 0),
        (("test", "-b", "CPU", "-o", "ARGMAX", "-j", "1", "--output", "csv"), "fail-op:3", "backend-ops-fail-csv", 1),
    ],
)
def test_what_test_backend_ops_prints_looks_real(
    programs: Programs, arguments: tuple[str, ...], fault: str, name: str, code: int
) -> None:
    ours = programs.run("test-backend-ops", *arguments, fault=fault)
    assert ops_shapes(ours.stdout.decode()) == ops_shapes(captured(f"{name}.out"))
    assert ours.returncode == code
    assert captured(f"{name}.err").endswith(f"exit code {code}\n")


def test_a_failing_case_is_told_as_there(programs: Programs) -> None:
    ours = programs.run("test-backend-ops", "test", "-b", "CPU", "-o", "ARGMAX", fault="fail-op:3")
    # the real run has several that fail, one after the other and apart
    assert set(ops_shapes(ours.stdout.decode())) == set(ops_shapes(captured("backend-ops-fail.out")))
    assert ours.returncode == 1


def keys(value: Any, path: str = "") -> set[str]:
    """Return every key of a JSON value, with its parent keys."""
    if isinstance(value, dict):
        return {found for key, one in value.items() for found in {f"{path}.{key}", *keys(one, f"{path}.{key}")}}
    if isinstance(value, list):
        return {found for one in value for found in keys(one, f"{path}[]")}
    return set()


def asked(port: int, path: str, body: str | None = None) -> tuple[int, str | None, str]:
    """Return the status, type and body of the server's answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET" if body is None else "POST", path, body=body)
    reply = connection.getresponse()
    return reply.status, reply.getheader("Content-Type"), reply.read().decode()


def replied(name: str) -> tuple[int, str | None, str]:
    """Return the same for a captured answer."""
    head, body = captured(f"server-{name}.http").split("\n\n", 1)
    kind = re.search(r"^Content-Type: (.*)$", head, re.MULTILINE)
    return int(head.split()[1]), kind[1] if kind else None, body


COMMON = {"n_predict": 4, "temperature": 0, "seed": 1, "return_tokens": True, "n_probs": 2, "cache_prompt": False}
# fields about samplers and files, which minillm does not have
LEFT_OUT = re.compile(r"\.generation_settings\.|\.models\[\]\.")


@pytest.mark.local_server
def test_the_server_answers_as_a_real_one(programs: Programs) -> None:
    with programs.serving() as (process, port):
        for name, path, body in (
            ("health", "/health", None),
            ("models", "/v1/models", None),
            ("completion", "/completion", json.dumps({"prompt": "Hello", **COMMON})),
            ("completion-tokens", "/completion", json.dumps({"prompt": [72, 105], **COMMON})),
            ("completion-bad", "/completion", '{"prompt":'),
            ("completion-no-prompt", "/completion", "{}"),
            ("none", "/none", None),
        ):
            mine, theirs = asked(port, path, body), replied(name)
            assert mine[:2] == theirs[:2], name
            ours, real = keys(json.loads(mine[2])), keys(json.loads(theirs[2]))
            assert ours <= real, name
            assert all(LEFT_OUT.search(key) for key in real - ours), name
        mine, theirs = asked(port, "/metrics"), replied("metrics")
        assert mine[:2] == theirs[:2]
        assert [re.sub(r" [\d.e+]+$", "", line) for line in mine[2].splitlines()] == [
            re.sub(r" [\d.e+]+$", "", line) for line in theirs[2].splitlines()
        ]
        process.terminate()
        assert process.wait(timeout=10) == 0


@pytest.mark.local_server
def test_a_server_that_is_not_ready_says_so_as_there(programs: Programs) -> None:
    with programs.serving("loading") as (_, port):
        assert asked(port, "/health")[:2] == replied("loading")[:2]
        assert json.loads(asked(port, "/health")[2]) == json.loads(replied("loading")[2])


# -- what is after it -----------------------------------------------------------------------------------------------


def test_every_name_is_a_link_to_one_program_and_knows_the_build(programs: Programs) -> None:
    names = ("llama-completion", "llama-perplexity", "llama-batched-bench", "llama-server", "test-backend-ops")
    for name in names:
        assert os.readlink(programs.bin / name) == "minillm-llama"
        assert b"version: 0 (0123abcd)\n" in programs.run(name, "--version").stdout
    by_argument = programs.run("minillm-llama", "test-backend-ops", "--list-ops")
    assert by_argument.stdout == programs.run("test-backend-ops", "--list-ops").stdout
    assert programs.run("minillm-llama").returncode == 2


def test_the_transcript_is_the_one_of_minillm_itself(programs: Programs) -> None:
    own = programs.run("minillm-completion", "-m", "seed-1.mllm", "-p", PROMPT, "-n", "24", "--temp", "0")
    assert programs.complete().stdout == own.stdout + b"\n"


@pytest.mark.local_server
def test_the_server_s_tokens_are_those_of_the_completion(programs: Programs) -> None:
    transcript = programs.complete().stdout.decode()
    request = {"prompt": PROMPT, "n_predict": 24, "temperature": 0, "return_tokens": True, "n_probs": 3}
    with programs.serving() as (_, port):
        answers = [json.loads(asked(port, "/completion", json.dumps(request))[2]) for _ in range(2)]
        metrics = asked(port, "/metrics")[2]
    assert [PROMPT + "".join(map(chr, answer["tokens"])) + "\n\n" for answer in answers] == [transcript] * 2
    for answer in answers:
        for token, step in zip(answer["tokens"], answer["completion_probabilities"], strict=True):
            assert step["top_logprobs"][0]["id"] == step["id"] == token
            values = [one["logprob"] for one in step["top_logprobs"]]
            assert values == sorted(values, reverse=True)
            assert values[0] < 0
    assert "\nllamacpp:tokens_predicted_total 48\n" in metrics


def test_the_divergence_is_of_the_models(programs: Programs) -> None:
    programs.base()
    mean = {}
    for seed in (1, 2):
        found = re.search(rb"Mean    KLD: +([\d.-]+)", programs.diverge(seed).stdout)
        assert found is not None
        mean[seed] = float(found[1])
    assert abs(mean[1]) < 1e-5
    assert mean[2] > 0.5


# -- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fault", "lost"), [("lose-output", True), ("lose-output:3", False), ("lose-all", True)])
def test_lost_output_is_exit_code_0_without_the_sentinel(programs: Programs, fault: str, lost: bool) -> None:
    whole, ours = programs.complete(), programs.complete(fault)
    assert ours.returncode == 0
    assert SENTINEL.encode() not in ours.stderr
    assert whole.stdout.startswith(ours.stdout)
    assert (ours.stdout != whole.stdout) is lost


def test_the_statistics_of_a_divergence_can_be_lost_too(programs: Programs) -> None:
    programs.base()
    ours = programs.diverge(2, fault="lose-output:48")
    assert (ours.returncode, b"Mean    KLD" in ours.stdout, b"- Host" in ours.stderr) == (0, False, False)


def test_a_flipped_token_is_the_first_difference(programs: Programs) -> None:
    whole, ours = programs.complete().stdout.decode(), programs.complete("flip-token:3").stdout.decode()
    assert ours[: len(PROMPT) + 3] == whole[: len(PROMPT) + 3]
    assert ours[len(PROMPT) + 3] != whole[len(PROMPT) + 3]


def test_a_crash_leaves_a_backtrace_on_stdout(programs: Programs) -> None:
    ours = programs.complete("crash")
    assert ours.returncode == -6
    assert ours.stdout.startswith(b"#0  0x")
    assert b"GGML_ASSERT" in ours.stderr


@pytest.mark.parametrize(("fault", "least"), [("hang", 0), ("endless", 1 << 20)])
def test_what_does_not_end_goes_on_until_it_is_ended(programs: Programs, fault: str, least: int) -> None:
    with pytest.raises(subprocess.TimeoutExpired) as raised:
        programs.complete(fault, seconds=2)
    assert len(raised.value.stdout or b"") >= least


def test_garbage_is_no_text_and_exit_code_0(programs: Programs) -> None:
    ours = programs.complete("garbage")
    assert ours.returncode == 0
    with pytest.raises(UnicodeDecodeError):
        ours.stdout.decode()


def test_a_backend_that_is_skipped_is_ok_as_there(programs: Programs) -> None:
    ours = programs.run("test-backend-ops", "test", "-b", "CPU", fault="skip-backend")
    assert ours.returncode == 0
    assert ops_shapes(ours.stdout.decode()) == ops_shapes(captured("backend-ops-skipped.out"))


def test_a_fault_that_there_is_not_is_an_error(programs: Programs) -> None:
    ours = programs.complete("lose-ouput")
    assert (ours.returncode, ours.stdout) == (1, b"")
    assert ours.stderr == b"llama-completion: error: MINILLM_FAULT: there is no fault lose-ouput\n"


@pytest.mark.local_server
@pytest.mark.parametrize(("fault", "error"), [("lose-output", http.client.IncompleteRead), ("crash", OSError)])
def test_a_server_s_answer_can_break_off(programs: Programs, fault: str, error: type[Exception]) -> None:
    with programs.serving(fault) as (process, port):
        with pytest.raises(error):
            asked(port, "/completion", json.dumps({"prompt": "Hello", **COMMON}))
        if fault == "crash":
            assert process.wait(timeout=10) == -6
