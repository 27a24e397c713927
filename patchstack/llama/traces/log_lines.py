"""Parse the lines in which llama.cpp reports its own figures.

The figures are times, reused graphs, draft acceptance, buffers, state checkpoints and sizes. A server prints the times
of each request. The other tools print the times of the whole run.

Sources: `print_timings` and the checkpoints of `tools/server/server-context.cpp`, `common_perf_print` in
`common/sampling.cpp`, `common_speculative_print_stats` in `common/speculative.cpp`, `llama_perf_context_print` and the
buffers in `src/llama-context.cpp`, `src/llama-kv-cache.cpp`, `src/llama-memory-recurrent.cpp`, `src/llama-model.cpp`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_REQUEST = re.compile(r"\bid +\d+ \| task -?\d+ \|")
# The number of repetitions is limited, so that matching a long line takes linear time.
_NUMBER = r"(-?\d{1,15}(?:\.\d{1,9})?|-?nan|-?inf)"
_RATES = r"[\d., ]{0,800}"
_LINE = re.compile(
    "|".join(
        (
            rf"(?P<time>(?:prompt eval|eval|total|load) time) = {{1,12}}{_NUMBER} ms"
            r"(?: / {1,8}(\d{1,15}) (?:tokens|runs))?"
            rf"(?: {{1,8}}\( {{0,12}}{_NUMBER} ms per token, {{1,12}}{_NUMBER} tokens per second\))?",
            r"graphs reused = {1,12}(?P<reused>\d{1,15})",
            r"draft acceptance = (?P<ratio>\d\.\d{1,9})"
            r" \( {0,8}(?P<taken>\d{1,15}) accepted / {1,8}(?P<drafted>\d{1,15}) generated\)"
            rf"(?:, mean acceptance length = {{1,8}}(?P<mean>[\d.]{{1,20}})"
            rf", acceptance rate per position = \((?P<rates>{_RATES})\))?",
            r"#gen tokens = {1,8}(?P<generated>\d{1,15}),? {1,8}#acc tokens = {1,8}(?P<accepted>\d{1,15})"
            rf"(?:,? {{1,8}}#mean acc len = {{1,8}}(?P<length>[\d.]{{1,20}}),? {{1,8}}"
            rf"#acc rate/pos = \((?P<positions>{_RATES})\))?",
            r" {0,12}(?P<device>\S{1,60}) {1,3}(?P<buffer>model|KV|RS|output|compute|LoRA) buffer size = {1,12}"
            r"(?P<mib>\d{1,12}\.\d{1,4}) MiB",
            r"(?P<checkpoint>created|restored|erased invalidated|erasing old) context checkpoint\b"
            r"(?: \d{1,6} of \d{1,6})? ?\((?P<about>[^)]{0,200})\)",
            r"(?P<full>forcing full prompt re-processing)",
            r"(?P<setting>n_ctx|n_ctx_seq|n_batch|n_ubatch|n_seq_max|general\.name|arch|model type|model params"
            r"|file type|file size|n_layer|n_expert|n_vocab) {1,24}= (?P<set>[^\n]{1,120})",
        )
    )
)
# These marks are searched first, because most lines contain none of them.
_MARKS = re.compile(
    rb" time =|graphs reused =|draft acceptance =|#gen tokens =|buffer size =|context checkpoint|forcing full prompt"
    rb"|llama_context: n_|print_info: "
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Time:
    """A reported time.

    `what` is `prompt eval`, `eval`, `total` or `load`. `tokens` is None if the line has no token count. `per_token`
    (ms) and `per_second` are the figures in the line. `of_request` is true for the time of one request, and false for
    the time of the whole run.
    """

    what: str
    milliseconds: float
    tokens: int | None
    per_token: float | None
    per_second: float | None
    of_request: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reused:
    """The number of graphs that llama.cpp has reused in a context so far."""

    count: int
    of_request: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """The counts of drafted and accepted tokens.

    `ratio`, `mean` and `rates` are the printed texts. `of_request` is true for one request, and false for the whole run
    up to this line.
    """

    accepted: int
    generated: int
    ratio: str | None
    mean: str | None
    rates: tuple[str, ...]
    of_request: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """A buffer that was allocated. `mib` is its size in MiB."""

    device: str
    what: str
    mib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """An event of a slot's state checkpoint.

    `event` is `created`, `restored`, `erased invalidated`, `erasing old` or `full`. `full` means that the whole prompt
    is processed again.
    """

    event: str
    mib: float | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A size of the context, or a property of the model."""

    name: str
    value: str


LogLine = Time | Reused | Acceptance | Buffer | Checkpoint | Setting


def read_log_line(line: bytes) -> LogLine | None:
    """Parse a plain line of llama.cpp. Return None if the line reports none of these figures."""
    if _MARKS.search(line) is None:
        return None
    text = line.decode("utf-8", "replace")
    found = _LINE.search(text)
    if found is None:
        return None
    of_request = _REQUEST.search(text) is not None
    if found["time"] is not None:
        return _time(found, of_request=of_request)
    if found["reused"] is not None:
        return Reused(count=int(found["reused"]), of_request=of_request)
    if found["ratio"] is not None:
        return Acceptance(
            accepted=int(found["taken"]),
            generated=int(found["drafted"]),
            ratio=found["ratio"],
            mean=found["mean"],
            rates=_rates(found["rates"]),
            of_request=of_request,
        )
    if found["generated"] is not None:
        return Acceptance(
            accepted=int(found["accepted"]),
            generated=int(found["generated"]),
            ratio=None,
            mean=found["length"],
            rates=_rates(found["positions"]),
            of_request=False,
        )
    if found["buffer"] is not None:
        return Buffer(device=found["device"], what=found["buffer"], mib=float(found["mib"]))
    if found["checkpoint"] is not None:
        return _checkpoint(found)
    if found["full"] is not None:
        return Checkpoint(event="full")
    return Setting(name=found["setting"], value=" ".join(found["set"].split()))


def _time(found: re.Match[str], *, of_request: bool) -> Time | None:
    at = found.re.groupindex["time"]
    milliseconds, tokens, per_token, per_second = (found[at + one] for one in range(1, 5))
    return Time(
        what=found["time"].removesuffix(" time"),
        milliseconds=float(milliseconds),
        tokens=None if tokens is None else int(tokens),
        per_token=None if per_token is None else float(per_token),
        per_second=None if per_second is None else float(per_second),
        of_request=of_request,
    )


def _rates(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _checkpoint(found: re.Match[str]) -> Checkpoint:
    about = dict(pair.split(" = ", 1) for pair in found["about"].split(", ") if " = " in pair)
    size, tokens = about.get("size", ""), about.get("n_tokens", "")
    number = size.removesuffix(" MiB")
    return Checkpoint(
        event=found["checkpoint"],
        mib=float(number) if re.fullmatch(r"\d{1,12}(?:\.\d{1,6})?", number) else None,
        tokens=int(tokens) if re.fullmatch(r"\d{1,15}", tokens) else None,
    )
