"""Read suites and their models from `patchstack.yaml`, and run suites.

A suite is an ordered list of gates.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchstack.causes import SettingsRefused, SettingsUnusable, UnknownName
from patchstack.engine.protocol import EngineLost, EngineUnavailable
from patchstack.errors import MissingError
from patchstack.gates.judgement import Judgement
from patchstack.gates.registry import KINDS, kind_of
from patchstack.observe.models import read_models
from patchstack.observe.observer import Observer
from patchstack.observe.protocol import Model
from patchstack.tasks import task
from patchstack.verdict import Verdict
from patchstack.workspace import Workspace
from patchstack.workspace.node import Node

NO_SUITES = "add a suite under suites: in patchstack.yaml; for an example, run patchstack demo --no-build DIR"
"""The hint for a workspace without suites."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One gate of a suite.

    The type of `settings` depends on the kind. `line` is the line number of the gate in the file. `gpu` is true if the
    gate needs a GPU on a build that uses GPUs.
    """

    name: str
    kind: str
    settings: object
    line: int
    gpu: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """An ordered list of gates. `what` is its purpose. `allow` lists the preflight checks that may fail."""

    name: str
    what: str
    gates: tuple[Gate, ...]
    allow: tuple[str, ...] = ()

    def only(self, names: Sequence[str]) -> Suite:
        """Return the suite with only the named gates. Raises `UsageError` for an unknown name."""
        known = [gate.name for gate in self.gates]
        if unknown := [name for name in names if name not in known]:
            near = difflib.get_close_matches(unknown[0], known, 1)
            hint = f"perhaps you meant {near[0]}" if near else f"the gates are {', '.join(known)}"
            raise UnknownName(f"suite {self.name} has no gate {', '.join(unknown)}", hint=hint)
        chosen = tuple(gate for gate in self.gates if gate.name in names)
        return Suite(name=self.name, what=self.what, gates=chosen, allow=self.allow)


def read_suites(workspace: Workspace) -> tuple[Suite, ...]:
    """Return the suites of a workspace. Raises `ConfigError` with all problems, each with its line number."""
    problems: list[str] = []
    models = read_models(workspace, problems)
    node = workspace.suites.complaining_to(problems) if workspace.suites is not None else None
    suites = [_read_suite(name, one, models) for name, one in node.children()] if node is not None else []
    if problems:
        raise SettingsUnusable(f"{workspace.path.name} cannot be used", problems=problems)
    return tuple(suites)


def find_suite(suites: Sequence[Suite], name: str | None, path: Path) -> Suite:
    """Return the suite with this name, or the only suite if no name is given.

    Raises `UsageError` if no suite has this name, or if no name is given and there is not exactly one suite.
    """
    names = [suite.name for suite in suites]
    if not suites:
        raise UnknownName(f"{path} has no suites", hint=NO_SUITES)
    if name is None and len(suites) == 1:
        return suites[0]
    found = next((suite for suite in suites if suite.name == name), None)
    if found is None:
        what = f"there is no suite {name}" if name is not None else f"{path} has several suites, and none is named"
        raise UnknownName(what, hint=f"name one with --suite: {', '.join(names)}")
    return found


def run_suite(
    suite: Suite, runner: Observer, *, of: str = "", unfit: str | None = None
) -> Iterator[tuple[Gate, Judgement]]:
    """Run the gates in order, and yield each gate with its judgement.

    The progress display shows each gate as a task while it runs. `of` is a word for the build. The word is empty if
    there is only one build. If a model or program is missing, the gate is INVALID, and the next gates still run.
    `unfit` is the reason why the GPU cannot be used now. With such a reason, gates that need the GPU are not run and
    are INVALID.

    Raises `EngineLost`, `EngineUnavailable`, and `UsageError` for a suite without gates.
    """
    if not suite.gates:
        raise SettingsRefused(f"suite {suite.name} has no gates", hint="add a gate under gates: in the suite")
    for number, gate in enumerate(suite.gates, 1):
        name = f"gate {gate.name} ({of or gate.kind}){place(number, len(suite.gates))}"
        with task(name, key=f"gate {gate.name} {gate.kind} {gate.settings!r}", announced=True) as this:
            if unfit is not None and gate.gpu:
                judgement = Judgement(verdict=Verdict.INVALID, reason=unfit)
            else:
                judgement = judge_gate(gate, runner)
            this.typical = bool(judgement.attempts) and not any(one.recalled for one in judgement.attempts)
        yield gate, judgement


def place(number: int, total: int) -> str:
    """Return the position of a gate for its progress line, such as `, 3 of 23`.

    Return an empty string if the suite has only one gate.
    """
    return f", {number} of {total}" if total > 1 else ""


def judge_gate(gate: Gate, runner: Observer) -> Judgement:
    """Observe and judge a gate. The verdict is INVALID if a model or program is missing.

    Raises `EngineLost` and `EngineUnavailable`.
    """
    kind = kind_of(gate.kind)
    own = replace(runner.context, kind=kind.key, gpu=gate.gpu)
    try:
        return kind.run(gate.settings, runner.within(own))
    except (EngineLost, EngineUnavailable):
        raise
    except MissingError as error:
        return Judgement(verdict=Verdict.INVALID, reason=error.message)


def _read_suite(name: str, node: Node, models: Mapping[str, Model]) -> Suite:
    gates = []
    seen: set[str] = set()
    for one in node.items("gates"):
        gate, kind = one.text("name", required=True) or "", one.text("kind", required=True) or ""
        if gate and not _NAME.match(gate):
            one.complain(
                "name",
                "not a name: a letter or digit, then letters, digits, dots, dashes and underscores",
            )
        if gate in seen:
            one.complain("name", f"the suite already has a gate {gate}")
        seen.add(gate)
        if kind and kind not in KINDS:
            near = difflib.get_close_matches(kind, KINDS, 1)
            one.complain(
                "kind", f"{kind!r} is not one of {', '.join(KINDS)}" + (f"; perhaps {near[0]}" if near else "")
            )
        elif kind:
            gpu = one.boolean("gpu") if "gpu" in one.node else None
            settings = kind_of(kind).read(one, models)
            needed = kind_of(kind).needs_gpu(settings) if gpu is None else gpu
            gates.append(Gate(name=gate, kind=kind, settings=settings, line=(one.node.lc.line or 0) + 1, gpu=needed))
    suite = Suite(name=name, what=node.text("what") or "", gates=tuple(gates), allow=node.texts("allow") or ())
    node.finish()
    return suite
