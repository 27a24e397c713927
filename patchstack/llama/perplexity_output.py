"""What `llama-perplexity` prints: its log on stderr, and the statistics of a KL divergence on stdout.

Formats are those of llama.cpp's `tools/perplexity/perplexity.cpp`, June 2026. It exits with 0 also where it could not
open the base, read it to its end, or decode; only its log says so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from patchstack.observe.sentinel import lines_of

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
_LONGEST = 1000  # of a line that says any of this
_PERCENTILES = ("99.9%", "99.0%", "95.0%", "90.0%", "10.0%", "5.0%", "1.0%", "0.1%")


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """What the log says. `chunks`, `context` (tokens), `batch` (tokens) and `sequences` are what was computed over,
    None where it did not get that far; `vocabulary` is the number of tokens known; `complaints` are its errors;
    `estimate` the perplexity that making a base ends with; `trained` the context that the model was trained on, where
    that is shorter."""

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
    """How a model differs from a base. Divergences are in nats; `same_top` and its error are in percent of the
    positions: where both find the same token most probable. `percentiles` are of the divergences, by name (`99.9%`).
    `perplexity` and `base_perplexity` are of the two. Any of them may be NaN or infinite. `rows` is how many chunks
    there is a line for."""

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
        """Whether the divergences, and what they are drawn from, are numbers."""
        values = (self.mean, self.maximum, self.median, self.minimum, self.same_top, *self.percentiles.values())
        return all(map(math.isfinite, (*values, self.perplexity)))


def read_log(stderr: bytes) -> Log:
    """The log of either run. Never raises: what is not there is None."""
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


def read_statistics(stdout: bytes) -> Statistics | None:
    """The statistics; None where they, or any line of them, are not there (below 100 positions there are none)."""
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
    """How many positions are compared: of each chunk the second half, without the last (`n_ctx - 1 - n_ctx/2`)."""
    return chunks * (context - 1 - context // 2)


def base_size(chunks: int, context: int, vocabulary: int) -> int:
    """The size of a base in bytes: a header (`_logits_`, context, vocabulary, chunks), the tokens, and for each
    position a scale, an offset and 16 bits a token, of which an even number is kept."""
    return 20 + 4 * context * chunks + positions_of(chunks, context) * (2 * ((vocabulary + 1) // 2) + 4) * 2


def _lines(stream: bytes) -> Iterator[str]:
    return (line for line in lines_of(stream) if len(line) <= _LONGEST)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
