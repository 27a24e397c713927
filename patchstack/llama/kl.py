"""Measure the KL divergence of two models with `llama-perplexity`.

One run writes the token probabilities of the first model to a file, the base. Another run compares the second model
with the base.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from patchstack.canonical import canonical
from patchstack.llama.program import MEMORY_BREAKDOWN
from patchstack.observe.exit_status import fault_of
from patchstack.observe.observer import Observer, Settled, retry
from patchstack.observe.protocol import Attempt, Invocation, Model, Observation
from patchstack.observe.sentinel import lines_of, sentinel_missing
from patchstack.observe.settings import Environment, merged

_COMPUTING = re.compile(
    r"(?:perplexity: calculating perplexity|kl_divergence: computing) over (\d+) chunks, "
    r"n_ctx=(\d+), batch_size=(\d+), n_seq=(\d+)\Z"
)
_VOCABULARY = re.compile(r"print_info: n_vocab +=\s*(\d+)\Z")
_COMPLAINT = re.compile(
    r" E (?:perplexity|kl_divergence)\s*: (.*)\Z| E (Unexpected negative .*)\Z"
    r"|(?:perplexity|kl_divergence) : (failed to decode)\Z"
)
_FINAL = re.compile(r"Final estimate: PPL = (\S+) \+/- (\S+)\Z")
_TRAINED = re.compile(r"model was trained on only (\d+) context tokens")
_NUMBER = r"(-?(?:nan|inf|\d+(?:\.\d+)?(?:e[+-]?\d+)?))"
_VALUE = re.compile(rf"(.+?)\s*:\s*{_NUMBER}\s*%?(?:\s*±\s*{_NUMBER}\s*%?)?\Z")
_CHUNK = re.compile(r"\s*(\d+)\s+\S+ ±.*%\Z")
_LONGEST = 1000  # the maximum length of a line that is read
_RECENT = 8
"""The number of outputs whose results are remembered.

A gate reads each output of a measurement two to four times.
"""
_PERCENTILES = ("99.9%", "99.0%", "95.0%", "90.0%", "10.0%", "5.0%", "1.0%", "0.1%")


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The parsed log of a run.

    `chunks`, `context` (tokens), `batch` (tokens) and `sequences` are None if the computation did not start.
    `vocabulary` is the size of the vocabulary. `complaints` are the errors. `estimate` is the final perplexity, which
    is printed when a base is made. `trained` is the training context of the model, if it is shorter than `context`.
    """

    chunks: int | None
    context: int | None
    batch: int | None
    sequences: int | None
    vocabulary: int | None
    complaints: tuple[str, ...]
    estimate: float | None
    trained: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """The statistics that the tool prints when it compares a model with a base.

    `rows` is the number of chunks for which the tool printed a line. Divergences are in nats. `same_top` is the
    percentage of positions at which both models have the same most probable token, and `same_top_error` is its error.
    `percentiles` are percentiles of the divergences, by name (`99.9%`). Any figure may be NaN or infinite.
    """

    rows: int
    mean: float
    mean_error: float
    maximum: float
    median: float
    minimum: float
    percentiles: Mapping[str, float]
    same_top: float
    same_top_error: float
    perplexity: float
    base_perplexity: float

    @property
    def finite(self) -> bool:
        """Whether the divergences, and the figures that they depend on, are finite."""
        values = (self.mean, self.maximum, self.median, self.minimum, self.same_top, *self.percentiles.values())
        return all(map(math.isfinite, (*values, self.perplexity)))


@functools.lru_cache(maxsize=_RECENT)
def read_log(stderr: bytes) -> Log:
    """Parse the log of either run. Does not raise: missing parts are None."""
    computing: tuple[int, ...] | None = None
    vocabulary = trained = None
    estimate = None
    complaints: list[str] = []
    for line in _lines(stderr):
        if found := _COMPUTING.search(line):
            computing = tuple(map(int, found.groups()))
        elif found := _VOCABULARY.search(line):
            vocabulary = int(found[1])
        elif found := _COMPLAINT.search(line):
            complaints.append(next(filter(None, found.groups()), ""))
        elif found := _FINAL.search(line):
            estimate = _number(found[1])
        elif found := _TRAINED.search(line):
            trained = int(found[1])
    chunks, context, batch, sequences = computing or (None, None, None, None)
    return Log(
        chunks=chunks,
        context=context,
        batch=batch,
        sequences=sequences,
        vocabulary=vocabulary,
        complaints=tuple(complaints),
        estimate=estimate,
        trained=trained,
    )


@functools.lru_cache(maxsize=_RECENT)
def read_statistics(stdout: bytes) -> Statistics | None:
    """Parse the statistics. Return None if a line is missing.

    With fewer than 100 positions, the tool prints no statistics.
    """
    values: dict[str, tuple[float, float]] = {}
    rows = 0
    for line in _lines(stdout):
        if _CHUNK.match(line):
            rows += 1
        elif found := _VALUE.match(line.strip()):
            name = " ".join(found[1].split())
            values[name] = (float(found[2]), float(found[3]) if found[3] else math.nan)
    try:
        return Statistics(
            rows=rows,
            mean=values["Mean KLD"][0],
            mean_error=values["Mean KLD"][1],
            maximum=values["Maximum KLD"][0],
            median=values["Median KLD"][0],
            minimum=values["Minimum KLD"][0],
            percentiles={name: values[f"{name} KLD"][0] for name in _PERCENTILES},
            same_top=values["Same top p"][0],
            same_top_error=values["Same top p"][1],
            perplexity=values["Mean PPL(Q)"][0],
            base_perplexity=values["Mean PPL(base)"][0],
        )
    except KeyError:
        return None


def positions_of(chunks: int, context: int) -> int:
    """Return the number of compared positions.

    In each chunk, the second half is compared, without the last position (`n_ctx - 1 - n_ctx/2`).
    """
    return chunks * (context - 1 - context // 2)


def base_size(chunks: int, context: int, vocabulary: int) -> int:
    """Return the size of a base in bytes.

    A base contains a header (`_logits_`, context, vocabulary, chunks) and the tokens. For each position, it contains a
    scale, an offset, and 16 bits for each token of the vocabulary. The number of these 16-bit values is rounded up to
    an even number.
    """
    return 20 + 4 * context * chunks + positions_of(chunks, context) * (2 * ((vocabulary + 1) // 2) + 4) * 2


def _lines(stream: bytes) -> Iterator[str]:
    return (line for line in lines_of(stream) if len(line) <= _LONGEST)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


PROGRAM = "llama-perplexity"
LEAST = 100  # the minimum number of positions for which the tool prints statistics
_ENVIRONMENT: Environment = (("GGML_NO_BACKTRACE", "1"),)
FIXED = ("-ngl", "99", "-fa", "on", "-fit", "off", "--perf", "-lv", "4")


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a comparison: a model with the settings for its run.

    `args` come last, so they override patchstack's own arguments.
    """

    model: Model
    args: tuple[str, ...] = ()
    env: Environment = ()

    def same_run(self, other: Side) -> bool:
        """Return whether both sides run the same model with the same settings."""
        env, theirs = merged(_ENVIRONMENT, self.env), merged(_ENVIRONMENT, other.env)
        return self.model == other.model and self.args == other.args and env == theirs

    @property
    def pinned(self) -> bool:
        """Whether the model is known to match its digest."""
        return self.model.sha256 is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two models to compare, and the text for the comparison.

    `context`, `batch` and `ubatch` are in tokens. Both sides use the same values, because a different batch size gives
    different figures. `chunks` is the number of chunks of `context` tokens that are used, from the start of the text.
    If it is None, all chunks are used.
    """

    base: Side
    test: Side
    text: bytes = field(repr=False)
    context: int = 512
    batch: int = 512
    ubatch: int = 512
    chunks: int | None = None
    seconds: int = 3600
    tries: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The result of a comparison.

    `fault` is the reason why `statistics` are missing. `failed` is true if the fault makes the verdict FAIL. `kept` is
    the name of the base file. `size` is the expected size of this file in bytes, or 0 if unknown.
    """

    context: int
    statistics: Statistics | None
    log: Log | None = None
    positions: int = 0
    fault: str = ""
    failed: bool = False
    kept: str = ""
    size: int = 0
    attempts: tuple[Attempt, ...] = ()


class _Unmeasured(Exception):
    """A step failed, so the measurement cannot continue."""

    def __init__(self, reason: str, *, failed: bool = False) -> None:
        super().__init__(reason)
        self.failed = failed


def comparison_problem(context: int, batch: int, ubatch: int, chunks: int | None) -> str | None:
    """Return the reason why these settings cannot be used. Return None if they can be used."""
    if not 8 <= context <= 1 << 20:
        return f"a context of {context} is not from 8 to {1 << 20}"
    if batch >= context and batch % context:
        return f"a batch of {batch} is neither below the context of {context} nor a multiple of it"
    if not 1 <= ubatch <= batch:
        return f"a physical batch of {ubatch} is not from 1 to the batch of {batch}"
    if chunks is not None and chunks < 1:
        return f"{chunks} chunks: at least 1 is needed"
    if chunks is not None and (short := too_few(chunks, context)):
        return short
    return None


def too_few(chunks: int, context: int) -> str | None:
    """Return the reason why the tool prints no statistics for this number of chunks.

    Return None if the tool prints statistics.
    """
    positions = positions_of(chunks, context)
    if positions >= LEAST:
        return None
    return f"{chunks} chunks of {context} tokens give {positions} positions, but statistics need {LEAST}"


def measure(comparison: Comparison, runner: Observer, base_runner: Observer, *, salt: str = "") -> Measured:
    """Run a comparison, and return its result.

    `base_runner` runs the program that makes the base. Exceptions that the runners raise are not caught.
    """
    attempts: list[Attempt] = []
    kept, size, log = "", 0, None
    try:
        if problem := _hopeless(comparison):
            raise _Unmeasured(problem)
        kept = _name(comparison, _build_of(base_runner, attempts), base_runner.digest_of(comparison.base.model))
        base = _made(comparison, kept, base_runner, attempts, own=base_runner is runner)
        assert base.chunks is not None
        size = base_size(base.chunks, comparison.context, base.vocabulary or 0) if base.vocabulary else 0
        log, statistics = _compared(comparison, kept, base, runner, attempts, salt)
    except _Unmeasured as unmeasured:
        fault, failed = str(unmeasured), unmeasured.failed
        return Measured(
            context=comparison.context,
            statistics=None,
            fault=fault,
            failed=failed,
            kept=kept,
            size=size,
            attempts=tuple(attempts),
        )
    return Measured(
        context=comparison.context,
        statistics=statistics,
        log=log,
        positions=positions_of(base.chunks, comparison.context),
        kept=kept,
        size=size,
        attempts=tuple(attempts),
    )


def base_invocation(comparison: Comparison, kept: str) -> Invocation:
    """Return the invocation that makes the base."""
    chunks = ("--chunks", str(comparison.chunks)) if comparison.chunks is not None else ()
    own = ("-f", "{input:text}", *chunks, "--kl-divergence-base", f"{{kept:{kept}}}")
    return _invocation(comparison, comparison.base, "base", own, inputs={"text": comparison.text}, keeps=(kept,))


def compare_invocation(comparison: Comparison, kept: str, what: str = "compare") -> Invocation:
    """Return the invocation that compares the second model with the base.

    It reads the tokens of the text from the base.
    """
    own = ("--kl-divergence", "--kl-divergence-base", f"{{kept:{kept}}}")
    return _invocation(comparison, comparison.test, what, own, inputs={}, keeps=())


def base_complaint(seen: Observation, comparison: Comparison, *, size: int | None = None) -> str | None:
    """Return the reason why a base cannot be trusted. Return None if it can be trusted.

    Also return None if the run failed because of the build, because `fault_of` reports this. `size` is the size of the
    base file in bytes, or None if unknown.
    """
    if complaint := _ended_badly(seen, comparison.base.pinned):
        return complaint
    if seen.code != 0:
        return None
    log = read_log(seen.stderr)
    told = "; ".join(log.complaints)
    if "you need at least" in told:
        return Settled(f"the text is too short: {told}")
    if "Unexpected negative" in told:  # printed if the perplexity is NaN
        return Settled(f"the base model gives no numbers: {told}")
    if log.complaints:
        return f"the base could not be made: {told}"
    if log.chunks is None or log.estimate is None:
        return "the base could not be made: its log does not show that the computation finished"
    if not math.isfinite(log.estimate):
        return Settled("the base model gives no numbers: its perplexity is not finite")
    if log.context != comparison.context:
        return Settled(f"the base was computed with a context of {log.context}, not {comparison.context}")
    if comparison.chunks is not None and log.chunks != comparison.chunks:
        return Settled(f"the text is too short: it has {log.chunks} chunks of {log.context}, not {comparison.chunks}")
    if short := too_few(log.chunks, comparison.context):
        return Settled(short)
    if size is not None and log.vocabulary and size != (right := base_size(log.chunks, log.context, log.vocabulary)):
        return f"the base has {size} bytes, not {right}: is the disk full?"
    return None


def compare_complaint(seen: Observation, base: Log, *, pinned: bool) -> str | None:
    """Return the reason why a comparison cannot be judged. Return None if it can be judged.

    Also return None if the run failed because of the build, because `fault_of` reports this.
    """
    if complaint := _ended_badly(seen, pinned):
        return complaint
    if seen.code != 0:
        return None
    log, statistics = read_log(seen.stderr), read_statistics(seen.stdout)
    told = "; ".join(log.complaints)
    if "inconsistent vocabulary" in told or (log.vocabulary or base.vocabulary) != base.vocabulary:
        return Settled(f"the models have different vocabularies ({log.vocabulary} and {base.vocabulary} tokens)")
    if log.complaints:
        return f"nothing was compared: {told}"
    if (log.chunks, log.context, log.batch, log.sequences) != (base.chunks, base.context, base.batch, base.sequences):
        return f"it compared {_shape(log)}, but the base is {_shape(base)}"
    if statistics is None:
        return "the statistics are missing"
    if statistics.rows != base.chunks:
        return f"it printed {statistics.rows} of {base.chunks} chunks"
    if not math.isfinite(statistics.base_perplexity):
        return Settled("the base gives no numbers: its perplexity is not finite")
    return None


def _hopeless(comparison: Comparison) -> str | None:
    return comparison_problem(comparison.context, comparison.batch, comparison.ubatch, comparison.chunks)


def _build_of(runner: Observer, attempts: list[Attempt]) -> str:
    """Return an id for the build and machine of a runner: the key of its `--version` observation."""
    invocation = Invocation(what="version", program=PROGRAM, args=("--version",), seconds=60)
    observed = retry(runner, invocation, _version_complaint, tries=3)
    attempts += observed.attempts
    if observed.observation is None:
        raise _Unmeasured(observed.complaint)
    return observed.observation.key


def _made(comparison: Comparison, kept: str, runner: Observer, attempts: list[Attempt], *, own: bool) -> Log:
    """Make the base, or reuse a recorded run that made it.

    Return the log of the run that made the base. `own` is true if the measured build also makes the base. A fault of
    the build then makes the verdict FAIL.
    """

    def complaint(seen: Observation) -> str | None:
        size = runner.size_of(kept)
        return base_complaint(seen, comparison, size=size)

    observed = retry(runner, base_invocation(comparison, kept), complaint, tries=comparison.tries)
    attempts += observed.attempts
    if observed.observation is None:
        raise _Unmeasured(observed.complaint)
    if fault := fault_of(observed.observation, pinned=comparison.base.pinned):
        raise _Unmeasured(f"the base could not be made: {fault.reason}", failed=own)
    if not runner.has(kept):
        raise _Unmeasured("the base was made, but its file is missing")
    return read_log(observed.observation.stderr)


def _compared(
    comparison: Comparison, kept: str, base: Log, runner: Observer, attempts: list[Attempt], salt: str
) -> tuple[Log, Statistics]:
    invocation = compare_invocation(comparison, kept, salt or "compare")

    def complaint(seen: Observation) -> str | None:
        return compare_complaint(seen, base, pinned=comparison.test.pinned)

    observed = retry(runner, invocation, complaint, tries=comparison.tries, salt=salt)
    attempts += observed.attempts
    seen = observed.observation
    if seen is None:
        raise _Unmeasured(observed.complaint)
    if fault := fault_of(seen, pinned=comparison.test.pinned):
        raise _Unmeasured(fault.reason, failed=fault.by_build)
    statistics = read_statistics(seen.stdout)
    assert statistics is not None
    return read_log(seen.stderr), statistics


def _name(comparison: Comparison, build: str, model: str) -> str:
    """Return the name of a base file. The name contains a digest of all inputs of the base."""
    parts = {
        "build": build,
        "model": model,
        "text": hashlib.sha256(comparison.text).hexdigest(),
        "shape": [comparison.context, comparison.batch, comparison.ubatch, comparison.chunks],
        "args": list(comparison.base.args),
        "env": list(map(list, comparison.base.env)),
    }
    return f"kl-{hashlib.sha256(canonical(parts)).hexdigest()[:40]}.base"


def _invocation(
    comparison: Comparison,
    side: Side,
    what: str,
    own: tuple[str, ...],
    *,
    inputs: dict[str, bytes],
    keeps: tuple[str, ...],
) -> Invocation:
    shape = ("-c", str(comparison.context), "-b", str(comparison.batch), "-ub", str(comparison.ubatch))
    return Invocation(
        what=f"{what} at {comparison.context}",
        program=PROGRAM,
        args=("-m", f"{{model:{side.model.name}}}", *shape, *own, *FIXED, *side.args),
        env=merged(_ENVIRONMENT, side.env),
        models=(side.model,),
        inputs=inputs,
        keeps=keeps,
        seconds=float(comparison.seconds),
    )


def _ended_badly(seen: Observation, pinned: bool) -> str | None:
    """Return the reason why a run cannot be judged. Return None if it can be judged.

    The reason follows from the exit status and the end of the log.
    """
    if fault := fault_of(seen, pinned=pinned):
        if fault.by_build:
            return None
        return Settled(fault.reason) if "does not accept its arguments" in fault.reason else fault.reason
    return sentinel_missing(seen.stderr, MEMORY_BREAKDOWN)


def _version_complaint(seen: Observation) -> str | None:
    return None if seen.code == 0 else f"{PROGRAM} --version exits with {seen.code}"


def _shape(log: Log) -> str:
    return f"{log.chunks} chunks of {log.context} in batches of {log.batch}, {log.sequences} at once"
