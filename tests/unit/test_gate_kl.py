"""The gates kl and drift, on what llama-perplexity really printed."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patchstack.errors import MissingError
from patchstack.gates import drift, kl
from patchstack.gates.bench import EngineBench
from patchstack.gates.kl import Checked, Limits, Spec
from patchstack.gates.kl_measure import Comparison, Measured, Side, comparison_problem
from patchstack.gates.perplexity_output import Statistics, base_size, positions_of, read_log, read_statistics
from patchstack.gates.protocol import Judgement, Model
from patchstack.verdict import Verdict
from patchstack.workspace import read_yaml
from patchstack.workspace.mapping import Mapping as Node
from tests.programs import a_bench, program

DATA = Path(__file__).parent.parent / "data" / "llama"
CAPTURED = DATA / "captured"
LOST = "its output was lost"

SCRIPT = r"""
side=base base= model=
while [ $# -gt 0 ]; do
    case "$1" in
    --version) echo "version: 0 (abc)" >&2; exit 0 ;;
    --kl-divergence) side=test ;;
    --kl-divergence-base) base=$2; shift ;;
    -m) model=$2; shift ;;
    esac
    shift
done
cd ROOT
echo "$side ${model##*/}" >>ran
if [ $side = base ]; then cat size >"$base"; elif [ ! -f "$base" ]; then side=no-base; fi
[ -f $side.once ] && { rm $side.once; exit 0; }
cat $side.out; cat $side.err >&2; exit "$(cat $side.code)"
"""


class Tool:
    """A llama-perplexity that prints what it is told to; its base has what the file `size` has."""

    def __init__(self, root: Path) -> None:
        self.root = root
        program(root / "bin", "llama-perplexity", SCRIPT.replace("ROOT", str(root)))
        (root / "size").write_bytes(bytes(base_size(3, 128, 288)))
        (root / "m.gguf").write_bytes(b"GGUF m")
        (root / "b.gguf").write_bytes(b"GGUF b")
        self.prints("base", CAPTURED / "perplexity")
        self.prints("test", CAPTURED / "kl")
        self.prints("no-base", CAPTURED / "kl-no-base")

    def prints(self, side: str, name: Path, code: int = 0) -> None:
        for suffix in ("out", "err"):
            (self.root / f"{side}.{suffix}").write_bytes(name.with_name(f"{name.name}.{suffix}").read_bytes())
        (self.root / f"{side}.code").write_text(str(code))

    def edit(self, file: str, old: str, new: str) -> None:
        text = (self.root / file).read_text()
        assert old in text
        (self.root / file).write_text(text.replace(old, new))

    @property
    def ran(self) -> list[str]:
        path = self.root / "ran"
        return path.read_text().splitlines() if path.exists() else []

    def spec(self, **settings: Any) -> Spec:
        limits = {name: settings.pop(name) for name in ("limits", "calibrate") if name in settings}
        base = Side(model=Model(name="base", path=str(self.root / "b.gguf")))
        test = Side(model=Model(name="test", path=str(self.root / "m.gguf")))
        given = {"base": base, "test": test, "text": b"text", "context": 128, "batch": 128, "ubatch": 128, "tries": 2}
        return Spec(comparison=Comparison(**{**given, **settings}), **limits)

    def bench(self) -> EngineBench:
        return a_bench(self.root / "bin", self.root, kind="kl/1")

    def judged(self, **settings: Any) -> Judgement:
        with self.bench() as bench:
            return kl.run(self.spec(**settings), bench)


@pytest.fixture
def tool(tmp_path: Path) -> Tool:
    return Tool(tmp_path)


def statistics(**values: Any) -> Statistics:
    found = read_statistics((CAPTURED / "kl.out").read_bytes())
    assert found is not None
    return replace(found, **values)


def measured(*, context: int = 128, **values: Any) -> Measured:
    return Measured(context=context, statistics=statistics(**values), positions=189)


# What is printed


def test_the_statistics_of_the_real_tool_are_read() -> None:
    found = read_statistics((CAPTURED / "kl.out").read_bytes())
    assert found is not None
    assert (found.mean, found.mean_error, found.maximum, found.percentiles["99.9%"]) == (
        2.02e-4,
        2e-5,
        1.357e-3,
        1.328e-3,
    )
    assert (found.same_top, found.same_top_error, found.rows, found.finite) == (97.884, 1.05, 3, True)
    assert found.percentiles["0.1%"] == found.minimum == -7e-6


def test_the_log_of_the_real_tool_is_read() -> None:
    log = read_log((CAPTURED / "perplexity.err").read_bytes())
    assert (log.chunks, log.context, log.batch, log.sequences, log.vocabulary) == (3, 128, 128, 1, 288)
    assert (log.complaints, log.estimate) == ((), 192263.1984)
    assert read_log((CAPTURED / "kl-no-base.err").read_bytes()).complaints == ("failed to open none.kl",)
    cut = read_log((DATA / "perplexity-cut-base.err").read_bytes())
    assert cut.complaints == ("failed reading log-probs for chunk 2",)


def test_statistics_that_lack_a_line_are_none() -> None:
    lines = (CAPTURED / "kl.out").read_text().splitlines(keepends=True)
    needed = ("Mean PPL(Q)  ", "Mean PPL(base)", "Same top p")
    wanted = [line for line in lines if "KLD:" in line or line.startswith(needed)]
    assert len(wanted) == 15
    for line in wanted:
        left = "".join(other for other in lines if other != line)
        assert read_statistics(left.encode()) is None, line
    assert read_statistics("".join(wanted).encode()) is not None


def test_the_size_of_a_base_is_that_of_the_real_ones() -> None:
    # as llama-perplexity wrote them: 4 chunks of 256, and 1, 3 and 4 of 128, with 288 tokens known
    assert base_size(4, 256, 288) == 300_788
    assert [base_size(chunks, 128, 288) for chunks in (1, 3, 4)] == [37_324, 111_932, 149_236]
    assert base_size(3, 128, 287) == base_size(3, 128, 288)
    assert positions_of(3, 128) == 189


# Verdicts


def test_a_model_within_the_limits_passes_and_the_base_is_made_once(tool: Tool) -> None:
    judgement = tool.judged(limits=Limits(same_top=97))
    assert judgement.verdict is Verdict.PASS, judgement
    assert "over 189 positions" in judgement.reason
    assert tool.judged(limits=Limits(same_top=97)).reason == judgement.reason
    assert tool.ran == ["base b.gguf", "test m.gguf"]
    assert judgement.actual == "mean KLD 0.0002 ± 2e-05, same top 97.884 ± 1.05 %"
    base = judgement.details["base"]
    assert isinstance(base, dict)
    assert base["bytes"] == 111_932
    (tool.root / "b.gguf").write_bytes(b"GGUF another")
    tool.judged(limits=Limits(same_top=97))
    assert tool.ran[2:] == ["base b.gguf", "test m.gguf"], "another model is another base"


def test_a_changed_limit_is_judged_anew_without_a_run(tool: Tool) -> None:
    assert tool.judged().verdict is Verdict.FAIL
    assert tool.judged(limits=Limits(mean=1e-4, same_top=90)).verdict is Verdict.FAIL
    assert tool.judged(limits=Limits(mean=1e-3, same_top=90)).verdict is Verdict.PASS
    assert len(tool.ran) == 2


def test_another_model_fails_with_its_figures(tool: Tool) -> None:
    tool.prints("test", CAPTURED / "kl-other")
    judgement = tool.judged()
    assert judgement.verdict is Verdict.FAIL
    assert "the mean KL divergence is 12 ± 0.29, not below 0.001" in judgement.reason
    assert "the same at 1.587 ± 0.912 % of the positions, not at 99.5 %" in judgement.reason


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ({"mean": 9e-4, "same_top": 99.5}, Verdict.PASS),
        ({"mean": 1e-3, "same_top": 100.0}, Verdict.FAIL),
        ({"mean": 0.0, "same_top": 99.4}, Verdict.FAIL),
        ({"mean": -1e-6, "same_top": 100.0}, Verdict.PASS),
        ({"mean": math.nan, "same_top": 100.0}, Verdict.FAIL),
        ({"mean": 0.0, "same_top": 100.0, "perplexity": math.nan}, Verdict.FAIL),
        ({"mean": 0.0, "same_top": 100.0, "maximum": math.inf}, Verdict.FAIL),
    ],
)
def test_limits_are_the_notebooks(values: dict[str, float], verdict: Verdict) -> None:
    found = Measured(context=128, statistics=statistics(**values), positions=189)
    assert kl.judged(found, Limits())[0] is verdict


def test_a_model_that_gives_nan_fails_and_the_document_is_json(tool: Tool) -> None:
    tool.prints("test", DATA / "perplexity-nan")
    judgement = tool.judged()
    assert judgement.verdict is Verdict.FAIL
    assert "no numbers" in judgement.reason
    text = json.dumps(dict(judgement.details), allow_nan=False)
    assert '"mean": "nan"' in text


def test_nan_on_both_sides_which_the_tool_calls_a_divergence_of_zero_is_invalid(tool: Tool) -> None:
    tool.prints("test", DATA / "perplexity-both-nan")
    found = read_statistics((tool.root / "test.out").read_bytes())
    assert found is not None
    assert (found.mean, found.same_top) == (0.0, 100.0)
    judgement = tool.judged()
    assert judgement.verdict is Verdict.INVALID
    assert "the base gives no numbers" in judgement.reason


def test_a_base_of_nan_is_invalid_and_nothing_is_compared(tool: Tool) -> None:
    tool.prints("base", DATA / "perplexity-nan-base")
    judgement = tool.judged()
    assert judgement.verdict is Verdict.INVALID
    assert "the base model gives no numbers" in judgement.reason
    assert tool.ran == ["base b.gguf"], "another try would not change it"


# What cannot be judged


@pytest.mark.parametrize(("side", "runs"), [("base", 3), ("test", 3)])
def test_lost_output_is_run_again_and_counted(tool: Tool, side: str, runs: int) -> None:
    (tool.root / f"{side}.once").touch()
    judgement = tool.judged(limits=Limits(same_top=97))
    assert judgement.verdict is Verdict.PASS
    assert len(tool.ran) == runs
    assert [LOST in (attempt.complaint or "") for attempt in judgement.attempts].count(True) == 1


def test_output_that_is_always_lost_is_invalid_and_not_kept(tool: Tool) -> None:
    whole = (tool.root / "test.err").read_text()
    tool.edit("test.err", "|   - Host", "|   - H")
    judgement = tool.judged(limits=Limits(same_top=97))
    assert judgement.verdict is Verdict.INVALID
    assert LOST in judgement.reason
    assert len(tool.ran) == 3
    (tool.root / "test.err").write_text(whole)
    assert tool.judged(limits=Limits(same_top=97)).verdict is Verdict.PASS


def test_a_base_that_went_missing_is_made_again(tool: Tool) -> None:
    tool.judged(limits=Limits(same_top=97))
    (kept,) = tool.root.rglob("kl-*.base")
    kept.unlink()
    assert tool.judged(limits=Limits(same_top=97)).verdict is Verdict.PASS
    assert tool.ran.count("base b.gguf") == 2


def test_a_base_that_is_never_written_is_invalid_though_the_tool_exits_with_0(tool: Tool) -> None:
    program(
        tool.root / "bin", "llama-perplexity", SCRIPT.replace("ROOT", str(tool.root)).replace('cat size >"$base"', ":")
    )
    judgement = tool.judged()
    assert judgement.verdict is Verdict.INVALID
    assert "is not there" in judgement.reason


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (CAPTURED / "kl-no-base", "failed to open none.kl"),
        (DATA / "perplexity-cut-base", "failed reading log-probs for chunk 2"),
        (DATA / "perplexity-voc-base", "different vocabularies"),
        (CAPTURED / "kl", "it compared 2 chunks of 128 in batches of 128, 1 at once, and the base is 3 chunks"),
    ],
)
def test_a_comparison_without_a_good_base_is_invalid_though_the_tool_exits_with_0(
    tool: Tool, data: Path, told: str
) -> None:
    tool.prints("test", data)
    if "compared 2" in told:
        tool.edit("test.err", "over 3 chunks", "over 2 chunks")
    judgement = tool.judged()
    assert judgement.verdict is Verdict.INVALID
    assert told in judgement.reason


def test_statistics_that_are_not_there_with_the_sentinel_are_invalid(tool: Tool) -> None:
    (tool.root / "test.out").write_text("")
    judgement = tool.judged()
    assert judgement.verdict is Verdict.INVALID
    assert "the statistics are not there" in judgement.reason


def test_a_short_text_is_invalid_with_the_reason_and_is_not_tried_again(tool: Tool) -> None:
    line = "0.00.1 I perplexity: calculating perplexity over 3 chunks, n_ctx=128, batch_size=128, n_seq=1"
    text = (tool.root / "base.err").read_text()
    short = "0.00.1 E perplexity: you need at least 256 tokens to evaluate perplexity with a context of 128"
    assert line.partition(" I ")[2] in text
    (tool.root / "base.err").write_text(
        "\n".join(short if "calculating perplexity" in one else one for one in text.splitlines()) + "\n"
    )
    judgement = tool.judged()
    assert judgement.verdict is Verdict.INVALID
    assert "the text is too short: you need at least 256 tokens" in judgement.reason
    assert tool.ran == ["base b.gguf"]


def test_fewer_chunks_than_asked_for_are_invalid(tool: Tool) -> None:
    judgement = tool.judged(chunks=8)
    assert judgement.verdict is Verdict.INVALID
    assert "it has 3 chunks of 128, not 8" in judgement.reason


def test_too_few_positions_are_invalid_before_anything_is_run(tool: Tool) -> None:
    judgement = tool.judged(chunks=1)
    assert judgement.verdict is Verdict.INVALID
    assert judgement.reason == "1 chunks of 128 tokens give 63 positions, and statistics need 100"
    assert tool.ran == []


def test_too_few_positions_in_all_of_the_text_are_invalid(tool: Tool) -> None:
    tool.edit("base.err", "over 3 chunks", "over 1 chunks")
    judgement = tool.judged()
    assert judgement.verdict is Verdict.INVALID
    assert "63 positions" in judgement.reason


@pytest.mark.parametrize(
    ("side", "code", "words", "verdict"),
    [
        ("test", 134, "GGML_ASSERT(x) failed", Verdict.FAIL),
        ("base", 134, "GGML_ASSERT(x) failed", Verdict.FAIL),
        ("test", 134, "CUDA error: out of memory", Verdict.INVALID),
        ("test", 137, "", Verdict.INVALID),
        ("test", 1, 'error while handling argument "-dev": invalid device: CUDA0', Verdict.INVALID),
        ("test", 1, "failed to load model", Verdict.INVALID),
    ],
)
def test_a_crash_is_a_fail_and_an_end_from_outside_is_invalid(
    tool: Tool, side: str, code: int, words: str, verdict: Verdict
) -> None:
    (tool.root / f"{side}.err").write_text(words + "\n")
    (tool.root / f"{side}.out").write_text("")
    (tool.root / f"{side}.code").write_text(str(code))
    assert tool.judged().verdict is verdict


def test_a_device_that_is_not_in_the_build_is_invalid_at_once(tool: Tool) -> None:
    (tool.root / "base.err").write_text('error while handling argument "-dev": invalid device: CUDA0\n')
    (tool.root / "base.code").write_text("1")
    judgement = tool.judged()
    assert judgement.verdict is Verdict.INVALID
    assert "invalid device: CUDA0" in judgement.reason
    assert tool.ran == ["base b.gguf"]


def test_a_crash_of_another_builds_programs_is_not_this_builds_fault(tool: Tool, tmp_path: Path) -> None:
    program(tmp_path / "old", "llama-perplexity", SCRIPT.replace("ROOT", str(tmp_path)) + "# the old build\n")
    (tool.root / "base.code").write_text("134")
    with tool.bench() as bench, a_bench(tmp_path / "old", tmp_path, kind="kl/1") as old:
        assert kl.run(tool.spec(), bench, old).verdict is Verdict.INVALID


def test_the_base_of_another_build_is_another_base(tool: Tool, tmp_path: Path) -> None:
    program(tmp_path / "old", "llama-perplexity", SCRIPT.replace("ROOT", str(tmp_path)) + "# the old build\n")
    names = []
    with tool.bench() as bench, a_bench(tmp_path / "old", tmp_path, kind="kl/1") as old:
        for base_bench in (bench, old, old):
            base = kl.run(tool.spec(), bench, base_bench).details["base"]
            assert isinstance(base, dict)
            names.append(base["kept"])
    assert names[0] != names[1] == names[2]
    assert tool.ran == ["base b.gguf", "test m.gguf"] * 2


def test_everything_a_base_is_made_from_is_in_its_name(tool: Tool) -> None:
    def kept(**settings: Any) -> Any:
        base = tool.judged(**settings).details["base"]
        assert isinstance(base, dict)
        return base["kept"]

    side = tool.spec().comparison.base
    others: list[dict[str, Any]] = [
        {"text": b"other"},
        {"context": 256, "batch": 128},
        {"batch": 64, "ubatch": 64},
        {"ubatch": 64},
        {"chunks": 3},
        {"base": replace(side, args=("-t", "1"))},
        {"base": replace(side, env=(("GGML_X", "1"),))},
        {"base": replace(side, model=Model(name="base", path=str(tool.root / "m.gguf")))},
    ]
    names = [kept(), *(kept(**other) for other in others)]
    assert len(set(names)) == len(names)
    assert kept(tries=1, seconds=99) == names[0]


def test_a_missing_model_is_an_error_with_a_hint(tool: Tool) -> None:
    (tool.root / "b.gguf").unlink()
    with pytest.raises(MissingError, match=r"model base is not at .*b\.gguf"):
        tool.judged()


class Sized(EngineBench):
    """A bench that can tell how large a kept file is."""

    def size_of(self, kept: str) -> int | None:
        found = list(Path(self.memory).parent.rglob(kept))
        return found[0].stat().st_size if found else None


def test_a_base_of_another_size_than_it_must_have_is_invalid_and_made_again(tool: Tool) -> None:
    plain = tool.bench()
    with Sized(plain.engine, plain.files, observations=plain.observations, memory=plain.memory, kind="kl/1") as bench:
        (tool.root / "size").write_bytes(b"half")
        judgement = kl.run(tool.spec(), bench)
        assert judgement.verdict is Verdict.INVALID
        assert "the base has 4 bytes, not 111932: is the disk full?" in judgement.reason
        (tool.root / "size").write_bytes(bytes(111_932))
        assert kl.run(tool.spec(limits=Limits(same_top=97)), bench).verdict is Verdict.PASS
        (kept,) = tool.root.rglob("kl-*.base")
        kept.write_bytes(b"cut")
        assert kl.run(tool.spec(limits=Limits(same_top=97)), bench).verdict is Verdict.PASS
        assert kept.stat().st_size == 111_932, "what was cut short later is made again"


# Calibration


def test_calibrated_limits_are_a_multiple_of_the_noise_or_of_what_could_be_seen() -> None:
    limits = kl.calibrated(statistics(mean=2e-4, mean_error=2e-5, same_top=99.0), 3, 1000)
    assert limits.mean == pytest.approx(6e-4)
    assert limits.same_top == pytest.approx(97)
    silent = kl.calibrated(statistics(mean=-1e-6, mean_error=0.0, same_top=100.0), 2, 200)
    assert silent.mean == pytest.approx(2e-6)
    assert silent.same_top == pytest.approx(99)


def test_noise_that_reaches_the_limits_is_invalid() -> None:
    assert kl.too_noisy(statistics(mean=1e-6, same_top=100.0), Limits()) is None
    for values in ({"mean": 2e-3, "same_top": 100.0}, {"mean": 0.0, "same_top": 99.0}, {"mean": math.nan}):
        assert "differs from itself" in (kl.too_noisy(statistics(**values), Limits()) or "")


def test_a_calibrated_gate_compares_the_base_with_itself_first_and_records_it(tool: Tool) -> None:
    judgement = tool.judged(limits=Limits(same_top=97), calibrate=1.0)
    assert tool.ran == ["base b.gguf", "test b.gguf", "test m.gguf"]
    assert judgement.verdict is Verdict.FAIL, "as large as the noise is not below it"
    noise = judgement.details["noise"]
    assert isinstance(noise, dict)
    assert (noise["factor"], noise["statistics"]["mean"]) == (1.0, 2.02e-4)
    assert tool.judged(limits=Limits(same_top=97), calibrate=3.0).verdict is Verdict.PASS
    noisy = tool.judged(calibrate=3.0)
    assert noisy.verdict is Verdict.INVALID
    assert "differs from itself" in noisy.reason


# Settings


def read(tmp_path: Path, text: str, kind: Any = kl) -> tuple[Any, list[str]]:
    path = tmp_path / "patchstack.yaml"
    path.write_text(text)
    (tmp_path / "t.txt").write_text("words")
    problems: list[str] = []
    models = {name: Model(name=name, path=name) for name in ("a", "b")}
    return kind.read(Node(read_yaml(path), path, "", problems), models), problems


def test_settings_are_read(tmp_path: Path) -> None:
    spec, problems = read(
        tmp_path,
        "base: a\nmodel: b\ntext: t.txt\ncontext: 256\nbatch: 256\nchunks: 4\nargs: [-t, '2']\nenv: {A: '1'}\n"
        "base_env: {A: '0'}\nmean: 0.01\nsame_top: 99\ncalibrate: 3\n",
    )
    assert problems == []
    comparison = spec.comparison
    assert (comparison.base.model.name, comparison.test.model.name, comparison.text) == ("a", "b", b"words")
    assert (comparison.context, comparison.batch, comparison.ubatch, comparison.chunks) == (256, 256, 256, 4)
    assert (comparison.base.env, comparison.test.env) == ((("A", "0"),), (("A", "1"),))
    assert comparison.base.args == comparison.test.args == ("-t", "2")
    assert (spec.limits, spec.calibrate) == (Limits(mean=0.01, same_top=99), 3)
    plain, problems = read(tmp_path, "base: a\nmodel: a\ntext: t.txt\n")
    assert problems == []
    assert (plain.limits, plain.calibrate, plain.comparison.chunks) == (Limits(mean=1e-3, same_top=99.5), None, None)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("model: a\ntext: t.txt", "base is missing"),
        ("base: a\nmodel: c\ntext: t.txt", "there is no model 'c'"),
        ("base: a\nmodel: a", "text is missing"),
        ("base: a\nmodel: a\ntext: none.txt", "none.txt cannot be read"),
        ("base: a\nmodel: a\ntext: t.txt\nbatch: 700", "neither below the context of 512 nor a multiple"),
        ("base: a\nmodel: a\ntext: t.txt\nubatch: 1024", "not from 1 to the batch"),
        ("base: a\nmodel: a\ntext: t.txt\ncontext: 64\nbatch: 64\nubatch: 64\nchunks: 2", "62 positions"),
        ("base: a\nmodel: a\ntext: t.txt\nmean: 0", "not a number above 0"),
        ("base: a\nmodel: a\ntext: t.txt\nmean: .nan", "not a number above 0"),
        ("base: a\nmodel: a\ntext: t.txt\nsame_top: 101", "up to 100"),
        ("base: a\nmodel: a\ntext: t.txt\ncalibrate: yes please", "not a number"),
        ("base: a\nmodel: a\ntext: t.txt\nargs: [-c, '64']", "-c: the gate sets it"),
        ("base: a\nmodel: a\ntext: t.txt\nchunk: 3", "perhaps you meant chunks"),
    ],
)
def test_wrong_settings_are_complained_about(tmp_path: Path, text: str, told: str) -> None:
    _, problems = read(tmp_path, text + "\n")
    assert any(told in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("context", "batch", "good"),
    [(512, 512, True), (512, 1024, True), (2048, 512, True), (512, 700, False), (4, 4, False)],
)
def test_batches_that_the_tool_would_not_take_are_refused(context: int, batch: int, good: bool) -> None:
    assert (comparison_problem(context, batch, batch, None) is None) == good


# Drift


def test_settings_of_drift_are_read(tmp_path: Path) -> None:
    spec, problems = read(tmp_path, "base: a\nmodel: b\ntext: t.txt\n", drift)
    assert (problems, spec.contexts) == ([], (256, 1024, 2048, 4096))
    spec, problems = read(tmp_path, "base: a\nmodel: b\ntext: t.txt\ncontexts: [512, 1024]\n", drift)
    assert (problems, spec.contexts) == ([], (512, 1024))
    for wrong, told in (
        ("contexts: []", "not a list of whole numbers"),
        ("contexts: [1024, 512]", "do not ascend"),
        ("contexts: [300]", "multiple"),
        ("context: 512", "perhaps you meant contexts"),
    ):
        _, problems = read(tmp_path, f"base: a\nmodel: b\ntext: t.txt\n{wrong}\n", drift)
        assert any(told in problem for problem in problems), (wrong, problems)


def drifting(*means: float | None, error: float = 1e-6) -> Judgement:
    """The judgement over contexts of 256, 512, … with these means; None is a context that could not be measured."""
    checked = []
    for number, mean in enumerate(means):
        context = 256 << number
        found = (
            measured(context=context, mean=mean, mean_error=error, same_top=100.0)
            if mean is not None
            else Measured(context=context, statistics=None, fault="lost")
        )
        verdict, reason = kl.judged(found, Limits())
        checked.append(Checked(measured=found, verdict=verdict, reason=reason, limits=Limits()))
    side = Side(model=Model(name="m", path="m"))
    spec = Spec(comparison=Comparison(base=side, test=side, text=b""))
    return drift.judged([spec] * len(checked), checked)


@pytest.mark.parametrize(
    ("means", "verdict", "grows"),
    [
        ((1e-4, 1e-4, 1e-4, 1e-4), Verdict.PASS, False),
        ((1e-4, 2e-4, 3e-4, 4e-4), Verdict.PASS, True),
        ((1e-4, 2e-4, 1e-4, 4e-4), Verdict.PASS, False),
        ((1e-4, 2e-4, 4e-4, 2e-3), Verdict.FAIL, True),
        ((2e-3, 1e-4, 1e-4, 1e-4), Verdict.FAIL, False),
        ((1e-4, None, 1e-4, 1e-4), Verdict.INVALID, False),
        ((1e-4, None, 1e-4, 2e-3), Verdict.FAIL, False),
        ((1e-4, 2e-4), Verdict.PASS, False),
        ((0.0, 1e-6, 2e-6), Verdict.PASS, False),
    ],
)
def test_one_context_that_fails_fails_drift_and_growth_is_told(
    means: tuple[float | None, ...], verdict: Verdict, grows: bool
) -> None:
    judgement = drifting(*means)
    assert judgement.verdict is verdict
    assert judgement.details["grows"] is grows
    assert ("the mean grows with the context" in judgement.reason) == grows


def test_the_table_of_drift_has_a_row_a_context_and_is_json() -> None:
    judgement = drifting(1e-4, None, 2e-3)
    rows = drift.table_rows(judgement)
    assert [row[:3] for row in rows] == [["256", "PASS", "189"], ["512", "INVALID", "0"], ["1024", "FAIL", "189"]]
    assert rows[0][3] == "0.0001 ± 1e-06"
    assert {len(row) for row in rows} == {7}
    assert judgement.actual == "256: 0.0001, 512: ?, 1024: 0.002"
    json.dumps(dict(judgement.details), allow_nan=False)


def test_drift_goes_on_after_a_context_that_fails(tool: Tool) -> None:
    spec = drift.Spec(kl=tool.spec(batch=64, ubatch=64), contexts=(128, 256))
    tool.edit("base.err", "batch_size=128", "batch_size=64")
    tool.edit("test.err", "batch_size=128", "batch_size=64")
    with tool.bench() as bench:
        judgement = drift.run(spec, bench)
    assert judgement.verdict is Verdict.FAIL
    assert judgement.reason.startswith("at 128: the most probable token is the same")
    assert "at 256: the base was computed with a context of 128, not 256" in judgement.reason
    assert tool.ran == ["base b.gguf", "test m.gguf", "base b.gguf"]
