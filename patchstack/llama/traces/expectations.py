"""Check expectations about the counts of records in a log, such as `route=mmq type=nvfp4 >= 1000`.

An expectation has this form:

    [trace=NAME] key=value … [>= N]

It counts the records that have these values. A value may contain `*`. A type may be a name or a number. The comparison
may also be `<=`, `==`, `>` or `<`. The default is `>= 1`. A limited trace has only the first records, so their count is
a lower bound. For a single route, the count comes from the summary, which includes all calls.
"""

from __future__ import annotations

import fnmatch
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from patchstack.causes import AmbiguousName, ExpectationUnusable, UnknownName
from patchstack.llama.traces.contradictions import RECORDS, LogCheck
from patchstack.llama.traces.formats import FORMATS, ROUTE_KEYS, TENSOR_KEYS, TYPE_KEYS
from patchstack.llama.traces.graphs import folded
from patchstack.llama.traces.reading import MORE, Reading, Trace
from patchstack.llama.traces.records import Value, type_name
from patchstack.llama.traces.recount import summed

_SHAPE = re.compile(r"(?P<terms>.*?)\s*(?:(?P<sign>>=|<=|==|>|<)\s*(?P<number>[\d,_]{1,25}))?\s*\Z", re.DOTALL)
_SIGNS: dict[str, Callable[[int, int], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}
_HINT = "for example 'route=mmq type=nvfp4 >= 1000', or 'trace=layout op=cpy == 0'"
_LONGEST = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """A parsed expectation.

    `trace` is the name of the trace, or None for any trace. `terms` are keys with the patterns of their values. `sign`
    is the operator that compares the count with `number`.
    """

    text: str
    trace: str | None
    terms: tuple[tuple[str, str], ...]
    sign: str
    number: int

    def holds(self, count: int) -> bool:
        """Return whether a count meets the expectation."""
        return _SIGNS[self.sign](count, self.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of an expectation.

    `holds` is None if the log does not show the result. `count` is the number that was compared, or None if nothing was
    counted. `why` explains the result and the source of the count.
    """

    expectation: Expectation
    holds: bool | None
    count: int | None
    why: str


def read_expectation(text: str) -> Expectation:
    """Parse an expectation. Raises `UsageError` if the text is not a valid expectation."""
    if len(text) > _LONGEST:
        raise ExpectationUnusable(f"the expectation has more than {_LONGEST} characters: {text[:40]!r}…", hint=_HINT)
    found = _SHAPE.match(text.strip())
    if found is None:
        raise ExpectationUnusable(f"{text!r} is not an expectation", hint=_HINT)
    terms: list[tuple[str, str]] = []
    trace = None
    for word in found["terms"].split():
        key, equals, value = word.partition("=")
        if not equals or not key or not value or any(sign in word for sign in "<>"):
            raise ExpectationUnusable(f"{text!r} is not an expectation: {word!r} is not key=value", hint=_HINT)
        if key in (name for name, _ in terms) or (key == "trace" and trace is not None):
            raise ExpectationUnusable(f"{text!r} is not an expectation: {key} occurs twice", hint=_HINT)
        if key == "trace":
            trace = _named(value, text)
        else:
            terms.append((key, _pattern(key, value)))
    if not terms:
        raise ExpectationUnusable(f"{text!r} is not an expectation: it contains no key=value", hint=_HINT)
    number = (found["number"] or "1").replace(",", "").replace("_", "")
    if not number.isdigit():
        raise ExpectationUnusable(f"{text!r} is not an expectation: {found['number']!r} is not a number", hint=_HINT)
    sign = found["sign"] or ">="
    if (sign, int(number)) == (">=", 0) or (sign, int(number)) == ("<", 0):
        raise ExpectationUnusable(f"{text!r} has the same result for every count: {sign} 0", hint=_HINT)
    return Expectation(text=text.strip(), trace=trace, terms=tuple(terms), sign=sign, number=int(number))


def _named(value: str, text: str) -> str:
    name = value.removeprefix("trace_")
    if name in (one.name for one in FORMATS) or name.startswith("LLAMA_"):
        return name
    known = ", ".join(one.name for one in FORMATS if " " not in one.name)
    raise UnknownName(f"{text!r} names an unknown trace", hint=f"the known traces are {known}")


def _pattern(key: str, value: str) -> str:
    if key in TYPE_KEYS and "*" not in value:
        return type_name(value)
    return folded(value) if key in TENSOR_KEYS else value


def answer(expectation: Expectation, reading: Reading, findings: Iterable[LogCheck]) -> Answer:
    """Return the result of an expectation for a log.

    Raises `UsageError` if several traces match the expectation, or if the trace that it names does not have the keys in
    the expectation.
    """
    named = [one for one in reading.traces if expectation.trace in (None, one.name)]
    keys = [key for key, _ in expectation.terms]
    able = [one for one in named if all(key in _keys_of(one) for key in keys)]
    if not able:
        if named and expectation.trace is not None:
            unknown = ", ".join(key for key in keys if key not in _keys_of(named[0]))
            raise UnknownName(
                f"records of {expectation.trace} have no {unknown}",
                hint=f"the keys of {expectation.trace} are {', '.join(_keys_of(named[0]))}",
            )
        what = f"{expectation.trace}" if expectation.trace is not None else f"with {', '.join(keys)}"
        return Answer(
            expectation=expectation, holds=None, count=None, why=f"the log has no records {what}: nothing was traced"
        )
    # Several traces may have these keys, so ignore the traces without a matching record.
    counts = {one.name: (one, _count(one, expectation)) for one in able}
    matching = [name for name, (_, count) in counts.items() if count] or list(counts)
    if len(matching) > 1:
        raise AmbiguousName(
            f"{expectation.text!r} could mean {' or '.join(matching)}",
            hint=f"specify the trace: 'trace={matching[0]} {expectation.text}'",
        )
    trace, count = counts[matching[0]]
    spoiled = [one for one in findings if one.trace in (trace.name, "log") and one.holds is False]
    return _judged(expectation, trace, count, spoiled)


def _keys_of(trace: Trace) -> tuple[str, ...]:
    return trace.keys or trace.format.by


def _matches(pattern: str, value: Value, key: str) -> bool:
    text = str(value)
    if key in TYPE_KEYS:
        pattern, text = pattern.lower(), text.lower()
    return text == pattern or ("*" in pattern and fnmatch.fnmatchcase(text, pattern.replace("[", "[[]")))


def _count(trace: Trace, expectation: Expectation) -> int:
    keys = [key for key, _ in expectation.terms]
    return sum(
        count
        for values, count in trace.by(*keys, left_out=True).items()
        if all(_matches(pattern, value, key) for (key, pattern), value in zip(expectation.terms, values, strict=True))
    )


def _judged(expectation: Expectation, trace: Trace, count: int, spoiled: Sequence[LogCheck]) -> Answer:
    def told(holds: bool | None, counted: int | None, why: str) -> Answer:
        return Answer(expectation=expectation, holds=holds, count=counted, why=why)

    if any(RECORDS in one.spoils for one in spoiled):
        first = next(one for one in spoiled if RECORDS in one.spoils)
        return told(None, count, f"the records of {trace.name} contradict: {first.said}, {first.found}".rstrip(", "))
    if trace.overflowed and any(key not in ROUTE_KEYS | TYPE_KEYS for key, _ in expectation.terms):
        return told(None, count, f"{trace.overflowed:,} records of {trace.name} came after the table was full ({MORE})")
    if not trace.bounded:
        return told(expectation.holds(count), count, f"{count:,} of {trace.records:,} records of {trace.name}")
    whole = _of_summary(expectation, trace, spoiled)
    if whole is not None:
        return told(expectation.holds(whole), whole, f"{whole:,} in total, according to the summary of {trace.name}")
    # Records that were not written can only increase the count.
    if expectation.sign in (">=", ">") and expectation.holds(count):
        return told(True, count, f"{count:,} of the first {trace.records:,} records of {trace.name}")
    if expectation.sign in ("<=", "<") and not expectation.holds(count):
        return told(False, count, f"{count:,} of the first {trace.records:,} records of {trace.name}")
    if expectation.sign == "==" and count > expectation.number:
        return told(False, count, f"{count:,} of the first {trace.records:,} records of {trace.name}")
    rest = f"{trace.dropped:,} more were not written" if trace.dropped else "no summary says whether there were more"
    return told(None, count, f"{count:,} of the first {trace.records:,} records of {trace.name}; {rest}")


def _of_summary(expectation: Expectation, trace: Trace, spoiled: Sequence[LogCheck]) -> int | None:
    """Return the count from the summary, which includes all calls.

    Return None if the summary does not have this count, or if a check showed that it is wrong. Summaries count single
    routes and types, so the expectation must have exactly one term.
    """
    if not trace.summaries or len(expectation.terms) != 1:
        return None
    key, pattern = expectation.terms[0]
    name = f"type.{pattern}" if key == "type" else pattern if key in ROUTE_KEYS else None
    if name is None or "*" in pattern or any(name in one.spoils for one in spoiled):
        return None
    counters = summed(trace.summaries).counters
    if "other" in counters or trace.format.name == "kv_paged":
        return None
    if key == "type" and not any(one.startswith("type.") for one in counters):
        return None
    return counters.get(name, 0)
