"""Run the gates that a change adds and that the policy does not contain yet.

Patches name these gates in the trailer `New-Gate`. The gates are part of the change, so they are not trusted. They run
after the gates of the policy, only in a sandbox, with the models of the policy and only with files of the workspace. A
FAIL of such a gate counts, but a PASS proves nothing.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from patchstack.engine.protocol import About
from patchstack.errors import PatchstackError
from patchstack.files.regular import read_regular
from patchstack.gates.judgement import Judgement
from patchstack.gates.suite import Gate, Suite, read_suites, run_suite
from patchstack.observe.runner import Runner
from patchstack.series.brought import gates_brought
from patchstack.series.files.directory import configured_series
from patchstack.series.files.order import has_patches
from patchstack.verdict import Verdict
from patchstack.workspace import Workspace, read_yaml
from patchstack.workspace.node import Node
from patchstack.workspace.policy import leads_out

MARK = "(brought by this change)"
MOST = 32
"""The maximum number of gates that one change may add. Each gate may run until the time limit in its settings."""
_LARGEST = 16 << 20
_NODES = 10_000
_SUITE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class BroughtGate:
    """A gate that a patch adds.

    `named` is its name in the trailer of the patch. If the gate cannot be run, `gate` is None and `problem` is the
    reason. `suite` is the suite that contains the gate in the change's workspace file, and `entry` is the gate's entry
    there. `files` contains the content of each file that the entry names, by path.
    """

    named: str
    gate: Gate | None = None
    problem: str = ""
    suite: str = ""
    entry: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The gate's name in reports. No gate of a policy can have this name."""
        return f"{self.named} {MARK}"


def brought_gates(workspace: Workspace, trusted: Sequence[Suite]) -> tuple[BroughtGate, ...]:
    """Return the gates that the patches of a workspace add and that its policy does not contain.

    Return no gates if no policy governs the workspace. Raises `ConfigError` for patches that cannot be read.
    """
    if workspace.policy is None:
        return ()
    patches = [
        patch.data or b""
        for config in workspace.series
        if has_patches(config.patches)
        for patch in configured_series(config).patches
    ]
    known = {name for suite in trusted for gate in suite.gates for name in (gate.name, f"{suite.name}/{gate.name}")}
    wanted = [name for name in gates_brought(patches) if name not in known]
    if len(wanted) > MOST:
        return (BroughtGate(named=f"{len(wanted)} gates", problem=f"a change may add at most {MOST} gates"),)
    return tuple(read_brought(workspace, name) for name in wanted)


def run_brought(
    brought: Sequence[BroughtGate], runner: Runner, suite: Suite, unfit: str | None
) -> Iterator[tuple[BroughtGate, Judgement]]:
    """Judge the gates that a change adds, each in the engine's sandbox.

    A gate that cannot run is INVALID. `suite` supplies the name and the preflight checks that may fail. `unfit` is the
    reason why gates that need a GPU cannot run, or None.

    Raises `EngineLost` and `EngineUnavailable`.
    """
    for one in brought:
        if one.gate is None:
            yield one, Judgement(verdict=Verdict.INVALID, reason=one.problem)
        elif (why := no_sandbox(runner.about)) is not None:
            yield one, Judgement(verdict=Verdict.INVALID, reason=why)
        else:
            alone = Suite(name=suite.name, what="", gates=(one.gate,), allow=suite.allow)
            for _, judgement in run_suite(alone, runner, of="added by this change", unfit=unfit):
                yield one, judgement


def no_sandbox(about: About) -> str | None:
    """Return the reason why an engine may not run the gates of a change, or None if it may.

    Only an engine with a sandbox may run them. The user may name an engine without a sandbox for the build. The gates
    of the change are not trusted even then.
    """
    if about.isolated:
        return None
    return f"a gate that a change adds runs only in a sandbox, and the engine {about.spec} has none"


def read_brought(workspace: Workspace, named: str) -> BroughtGate:
    """Read the gate `named` from the change's own workspace file.

    Does not raise: if the gate cannot be used, `problem` gives the reason.
    """
    try:
        found = _entry(workspace.path, named)
        if isinstance(found, str):
            return BroughtGate(named=named, problem=found)
        suite, entry = found
        if not _SUITE.match(suite):
            return BroughtGate(
                named=named, problem=f"the suite name of {named} may have only letters, digits, dots, - and _"
            )
        files: dict[str, bytes] = {}
        for text in sorted(_texts(entry)):
            if problem := _read_named(workspace, text, files):
                return BroughtGate(named=named, problem=problem)
        with tempfile.TemporaryDirectory(prefix="patchstack-gate-") as directory:
            place = Path(directory).resolve()
            for text, content in files.items():
                (place / text).parent.mkdir(parents=True, exist_ok=True)
                (place / text).write_bytes(content)
            gate = _parsed(workspace, entry, place / "patchstack.yaml")
        return BroughtGate(named=named, gate=gate, suite=suite, entry=entry, files=files)
    except PatchstackError as error:
        return BroughtGate(named=named, problem="; ".join([error.message, *error.problems]))
    except (RecursionError, TypeError, ValueError, OSError) as error:
        return BroughtGate(named=named, problem=f"the gate {named} cannot be used: {type(error).__name__}: {error}")


def _entry(path: Path, named: str) -> tuple[str, dict[str, Any]] | str:
    """Return the suite and the gate's entry in a workspace file, or the problem as a sentence.

    Nothing else in this file is used, because the file is not trusted.
    """
    document = read_yaml(path, comments=False)
    suites = document.get("suites") if isinstance(document, Mapping) else None
    suite, _, name = named.rpartition("/")
    found = [
        (str(of), dict(gate))
        for of, one in (suites.items() if isinstance(suites, Mapping) else ())
        if suite in ("", str(of)) and isinstance(one, Mapping) and isinstance(one.get("gates"), list)
        for gate in one["gates"]
        if isinstance(gate, Mapping) and gate.get("name") == name
    ]
    if len(found) == 1:
        return found[0]
    return f"{'several suites have' if found else 'no suite has'} the gate {named}, which a patch names as New-Gate"


def _read_named(workspace: Workspace, text: str, files: dict[str, bytes]) -> str:
    """Read the file that a string in an entry names, and add its content to `files`.

    Return the problem, or an empty string. A string that names no file is ignored. A path outside the workspace is
    refused. If the file also exists next to the policy's workspace file, the policy's content is used.
    """
    if not text or len(text) > 255 or "\0" in text or "\n" in text:
        return ""
    path = PurePosixPath(text)
    if path.is_absolute() or ".." in path.parts or text.startswith("~"):
        return f"{text}: a gate that a change adds may name only files of the workspace"
    root = next((one for one in (workspace.words_file.parent, workspace.root) if (one / path).is_file()), None)
    if path.name in ("", "patchstack.yaml") or root is None:
        return ""
    if leads_out(root / path, root):
        return f"{text} leads out of the workspace"
    try:
        files[text] = read_regular(root / path, _LARGEST)
    except OSError as error:
        return f"{text} cannot be read: {error.strerror or error}"
    return ""


def _parsed(workspace: Workspace, entry: dict[str, Any], file: Path) -> Gate:
    """Return the gate that an entry defines, with the models of the policy.

    Paths in the entry are relative to the directory of `file`. Raises `ConfigError`.
    """
    file.write_text(json.dumps({"suites": {"brought": {"gates": [entry]}}}, default=str), encoding="utf-8")
    top = Node(read_yaml(file), file, "", [])
    ((gate,),) = (
        suite.gates
        for suite in read_suites(
            Workspace(path=workspace.path, series=(), models=workspace.models, suites=top.mapping("suites"))
        )
    )
    return gate


def _texts(value: Any) -> set[str]:
    """Return every string in an entry.

    Raises `ValueError` if the entry has too many values, for example because YAML aliases make it contain itself.
    """
    found: set[str] = set()
    pending, seen = [value], 0
    while pending:
        one = pending.pop()
        if (seen := seen + 1) > _NODES:
            raise ValueError(f"it has more than {_NODES} values")
        if isinstance(one, str):
            found.add(one)
        elif isinstance(one, Mapping):
            pending += [*one, *one.values()]
        elif isinstance(one, list):
            pending += one
    return found
