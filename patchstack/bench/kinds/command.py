"""`command`: run any program of the build, and find its figures with regular expressions."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from patchstack.bench.workload import Figures, Workload, WorkloadKind, workload_models
from patchstack.llama.settings import ARGS, ENV, ITS_MODEL, PROGRAM, SECONDS, SENTINEL, TRIES, program_of
from patchstack.observe.declared import Models, Refused, Setting, Text, Values
from patchstack.observe.protocol import Observation
from patchstack.workspace.node import Node


@dataclass(frozen=True, slots=True)
class FigurePatterns:
    """A setting that maps row names to regular expressions. The value is a YAML mapping, or a list of options
    ROW=REGEX."""

    written: str = "a mapping of rows to regular expressions with one group"
    option: Any = list[str]

    def read(self, node: Node, name: str, models: Models) -> dict[str, str] | None:
        child = node.mapping(name)
        found = {str(key): str(child.node[key]) for key in child.node} if child is not None else {}
        for row, text in found.items():
            if problem := _problem(text):
                node.complain(name, f"{row}: {problem}")
        return found

    def convert(self, given: list[str], name: str, models: Models) -> dict[str, str]:
        found = dict(one.partition("=")[::2] for one in given)
        for row, text in found.items():
            if problem := _problem(text):
                raise Refused(f"{row}: {problem}")
        return found


FIGURES = Setting[dict[str, str]](
    name="figures",
    form=FigurePatterns(),
    default={},
    required=True,
    flag="--figure",
    metavar="ROW=REGEX",
    help="A row and its pattern. The pattern matches the output once, and its only group is the figure (repeat).",
)
BETTER = Setting[str](
    name="better",
    form=Text(
        written="`higher` or `lower`",
        check=lambda text: None if text in ("higher", "lower") else f"{text!r} is neither higher nor lower",
    ),
    default="higher",
    metavar="higher|lower",
    help="Whether higher or lower figures are better.",
)
UNIT = Setting[str](name="unit", form=Text(), default="", metavar="TEXT", help="The unit of the figures.")


def make(name: str, values: Values) -> Workload:
    """Return the workload that the settings describe."""
    program, figures = program_of(values), values[FIGURES]
    return Workload(
        name=name,
        kind=KIND.name,
        program=program.name,
        args=program.args,
        env=dict(program.env),
        models=workload_models(program.models),
        sentinel=program.sentinel,
        seconds=program.seconds,
        tries=program.tries,
        rows=tuple(figures),
        unit=values[UNIT],
        better=values[BETTER],
        reading={"figures": figures},
    )


def read(workload: Workload, seen: Observation) -> Figures | str:
    """Return the figure of each row, or the reason why the output cannot be used. A pattern must match exactly once in
    stdout and stderr together."""
    text = (seen.stdout + b"\n" + seen.stderr).decode("utf-8", "replace")
    found = {}
    for row, pattern in workload.reading["figures"].items():
        matches = re.findall(pattern, text, re.MULTILINE)
        if len(matches) != 1:
            return f"the figure of {row} was found {len(matches)} times instead of once"
        try:
            found[row] = float(matches[0])
        except ValueError:
            return f"the figure of {row} is not a number: {matches[0][:40]!r}"
        if not math.isfinite(found[row]) or found[row] <= 0:
            return f"the figure of {row} is {found[row]}"
    return found


def _problem(text: str) -> str | None:
    try:
        groups = re.compile(text).groups
    except re.error as error:
        return f"{text!r} is not a regular expression: {error}"
    return None if groups == 1 else f"{text!r} has {groups} groups; exactly one is required, for the figure"


KIND = WorkloadKind(
    name="command",
    version=1,
    settings=(PROGRAM, ARGS, ITS_MODEL, FIGURES, BETTER, UNIT, ENV, SENTINEL, SECONDS, TRIES),
    make=make,
    read=read,
)
