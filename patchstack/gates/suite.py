"""Suites: ordered lists of gates, with their models, as `patchstack.yaml` has them; and running one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from patchstack.engine.protocol import EngineLost, EngineUnavailable
from patchstack.errors import ConfigError, MissingError, UsageError
from patchstack.gates.judgement import Judgement
from patchstack.gates.kinds import backend_ops
from patchstack.observe.observer import Observer
from patchstack.observe.protocol import Model
from patchstack.tasks import task
from patchstack.verdict import Verdict
from patchstack.workspace import read_yaml
from patchstack.workspace.mapping import Mapping as Node

KINDS = ("completion", "tokens", "backend-ops", "kl", "drift", "rollback", "engaged", "routes", "red-green", "command")
NO_SUITES = "write one under suites: in patchstack.yaml; patchstack demo --no-build DIR makes a workspace that has one"
"""What to do in a workspace without suites."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")


class Kind(Protocol):
    """A gate kind's module."""

    KIND: str
    VERSION: int

    def read(self, node: Node, models: Mapping[str, Model]) -> object:
        """The settings of a suite's entry; complaints go to the node."""
        ...

    def run(self, spec: Any, runner: Observer) -> Judgement:
        """Observe, and judge."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One gate of a suite: its name, its kind, and the kind's own settings. `line` is where it is written. `gpu`: on a
    build that uses GPUs, it needs one."""

    name: str
    kind: str
    spec: object
    line: int
    gpu: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """An ordered list of gates. `what` says what it is for; `allow` are the preflight checks that may fail."""

    name: str
    what: str
    gates: tuple[Gate, ...]
    allow: tuple[str, ...] = ()

    def only(self, names: Sequence[str]) -> Suite:
        """The suite with the gates of those names alone. Raises `UsageError` for one it does not have."""
        known = [gate.name for gate in self.gates]
        if unknown := [name for name in names if name not in known]:
            near = difflib.get_close_matches(unknown[0], known, 1)
            hint = f"perhaps you meant {near[0]}" if near else f"it has {', '.join(known)}"
            raise UsageError(f"suite {self.name} has no gate {', '.join(unknown)}", hint=hint)
        chosen = tuple(gate for gate in self.gates if gate.name in names)
        return Suite(name=self.name, what=self.what, gates=chosen, allow=self.allow)


def kind_of(name: str) -> Kind:
    """The module of a gate kind."""
    return cast(Kind, import_module(f"patchstack.gates.kinds.{name.replace('-', '_')}"))


def read_suites(path: Path) -> tuple[Suite, ...]:
    """The suites of a workspace file. Raises `ConfigError` with every complaint, each with its line."""
    from ruamel.yaml.comments import CommentedMap

    document = read_yaml(path)
    if not isinstance(document, CommentedMap):
        raise ConfigError(f"{path}:1: the workspace is not a mapping", hint="it starts with `series:`")
    problems: list[str] = []
    top = Node(document, path, "", problems)
    models = _read_models(top, path.parent)
    node = top.mapping("suites")
    suites = [_read_suite(name, one, models) for name, one in node.children()] if node is not None else []
    if problems:
        raise ConfigError(f"{path.name} cannot be used", problems=problems)
    return tuple(suites)


def find_suite(suites: Sequence[Suite], name: str | None, path: Path) -> Suite:
    """The suite of that name, or the only one. Raises `UsageError`."""
    names = [suite.name for suite in suites]
    if not suites:
        raise UsageError(f"{path} has no suites", hint=NO_SUITES)
    if name is None and len(suites) == 1:
        return suites[0]
    found = next((suite for suite in suites if suite.name == name), None)
    if found is None:
        what = f"there is no suite {name}" if name is not None else "which suite?"
        raise UsageError(what, hint=f"--suite with one of {', '.join(names)}")
    return found


def run_suite(
    suite: Suite, runner: Observer, *, of: str = "", unfit: str | None = None
) -> Iterator[tuple[Gate, Judgement]]:
    """Every gate in order, with its judgement; each is a task while it runs. `of` says in a word which build it is run
    on, if there are several. A gate for which something is missing (a model, a program) is INVALID, and the others go
    on. `unfit` is why the GPU cannot be used now: a gate that needs it is INVALID, and not run.

    Raises `EngineLost` and `EngineUnavailable`, `UsageError` for a suite without gates.
    """
    if not suite.gates:
        raise UsageError(f"suite {suite.name} has no gates", hint="a suite that checks nothing would pass")
    for gate in suite.gates:
        kind = kind_of(gate.kind)
        name = f"gate {gate.name} ({of or gate.kind})"
        with task(name, key=f"gate {gate.name} {gate.kind} {gate.spec!r}", announced=True) as this:
            if unfit is not None and gate.gpu:
                judgement = Judgement(verdict=Verdict.INVALID, reason=unfit)
            else:
                own = replace(runner.context, kind=f"{kind.KIND}/{kind.VERSION}", gpu=gate.gpu)
                judgement = _judged(kind, gate, runner.within(own))
            this.typical = bool(judgement.attempts) and not any(one.recalled for one in judgement.attempts)
        yield gate, judgement


def _judged(kind: Kind, gate: Gate, runner: Observer) -> Judgement:
    try:
        return kind.run(gate.spec, runner)
    except (EngineLost, EngineUnavailable):
        raise
    except MissingError as error:
        return Judgement(verdict=Verdict.INVALID, reason=error.message)


def _read_models(top: Node, root: Path) -> dict[str, Model]:
    node = top.mapping("models")
    found = {}
    for name, one in node.children() if node is not None else ():
        path, digest = one.text("path", required=True), one.text("sha256")
        if digest is not None and not _DIGEST.match(digest):
            one.complain("sha256", "not 64 lower-case hexadecimal digits")
        place = Path(path or ".").expanduser()
        found[name] = Model(
            name=name,
            path=str((root / place).absolute()),  # a path that is absolute stays what it is
            sha256=digest,
            what=one.text("what") or "",
        )
        one.finish()
    return found


def _read_suite(name: str, node: Node, models: Mapping[str, Model]) -> Suite:
    gates = []
    seen: set[str] = set()
    for one in node.items("gates"):
        gate, kind = one.text("name", required=True) or "", one.text("kind", required=True) or ""
        if gate and not _NAME.match(gate):
            one.complain("name", "a gate is named with letters, digits, dots, dashes and underscores")
        if gate in seen:
            one.complain("name", f"the suite has a gate {gate} already")
        seen.add(gate)
        if kind and kind not in KINDS:
            near = difflib.get_close_matches(kind, KINDS, 1)
            one.complain("kind", f"{kind!r} is none of {', '.join(KINDS)}" + (f"; perhaps {near[0]}" if near else ""))
        elif kind:
            gpu = one.boolean("gpu") if "gpu" in one.node else None
            spec = kind_of(kind).read(one, models)
            needed = not (isinstance(spec, backend_ops.Spec) and spec.backend == "CPU") if gpu is None else gpu
            gates.append(Gate(name=gate, kind=kind, spec=spec, line=(one.node.lc.line or 0) + 1, gpu=needed))
    suite = Suite(name=name, what=node.text("what") or "", gates=tuple(gates), allow=node.texts("allow") or ())
    node.finish()
    return suite
