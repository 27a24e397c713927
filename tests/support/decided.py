"""A workspace with decisions of format 2 and without compiling: real git, real gates, a fixed engine.

Accepting goes through `workflow.candidate`; builds are directories of files, and programs print what llama.cpp's did.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest import mock

from patchstack.bench.terms import read_terms
from patchstack.builds.inputs.plan import Request
from patchstack.builds.inputs.source import Source
from patchstack.builds.inputs.variant import load_variants
from patchstack.builds.proofs.claim import Proof
from patchstack.builds.record.store import Store, Stored
from patchstack.builds.run.build import Inputs
from patchstack.canonical import canonical, indented
from patchstack.evidence.ledger import Decision, Ledger
from patchstack.evidence.origin import Known
from patchstack.evidence.signing import Signers
from patchstack.evidence.store import Evidence, Observations
from patchstack.files.places import cache_places
from patchstack.gates.suite import find_suite, read_suites
from patchstack.git.remote import Cache
from patchstack.observe.from_build import programs_of
from patchstack.observe.observer import RunContext
from patchstack.observe.runner import Runner
from patchstack.verdict import Verdict
from patchstack.workflow.brought_gates import read_brought
from patchstack.workflow.candidate.accept import Terms
from patchstack.workflow.candidate.acceptance import Accepted, accept
from patchstack.workflow.candidate.candidate import described, open_candidates
from patchstack.workflow.candidate.new_gates import brought, read_brings
from patchstack.workflow.ledger.check import LedgerCheck, check_ledger
from patchstack.workflow.machine import Connection, ProvingMachine
from patchstack.workspace import Workspace, read_workspace
from patchstack.workspace.policy import governed
from tests.support.build_records import a_record
from tests.support.builders import Fork, RepoBuilder
from tests.support.fixed_engine import ROWS as ROWS_PROGRAMS
from tests.support.fixed_engine import FixedEngine, write_programs
from tests.support.kept_tree import KeptTree
from tests.support.toy import MAIN, Toy, a_toy

SUITES = """\
models:
  one: {path: one.gguf, sha256: 583a3ee3dcfe165b1686159c657930db6c4621e152297fd69760f49eb890671f}
suites:
  quick:
    gates:
      - name: greedy
        kind: completion
        model: one
        prompt: The capital of France is
        states:
          plain: {expect: 21331c2f8458541e87848813cc90c5ed}
          paged: {env: {LLAMA_KV_PAGED: 1}, same_as: plain}
      - {name: ops, kind: backend-ops, backend: CPU, ops: [ARGMAX, L2_NORM], cases: {file: cases.txt}}
      - {name: drift, kind: drift, base: one, model: one, text: text.txt, contexts: [128, 256], batch: 256, chunks: 3,
         env: {LLAMA_KV_PAGED: 1}, base_env: {}, mean: 1.0, same_top: 1}
      - {name: mark, kind: engaged, model: one, prompt: A, on: {MARK: 1}, off: {MARK: 0}, mark: "^trace: step="}
      - {name: hello, kind: command, program: hello, must: "^hello$"}
  brought:
    gates:
      - {name: rows, kind: command, program: rows, must: "^rows: 8$"}
      - {name: rows-option, kind: command, program: rows, args: [--rows], must: "^rows: 8$"}
      - {name: rows-test, kind: command, program: test-rows, must: "^rows: 8$"}
      - {name: hello, kind: command, program: hello, must: "^hello$"}
"""
ROWS = "Ask for the rows"
TRAILERS = "Switch: TOY_ROWS\nNew-Gate: rows\nNew-Gate: brought/rows-option\nNew-Gate: rows-test"
UNPROVEN = "Loud rows"
REASON = "nothing prints it yet"


class PaperStore(Store):
    """A store that has every requested paper build."""

    made: ClassVar[dict[str, Stored]] = {}

    def find(self, key: str) -> Stored | None:
        return self.made.get(key)


class PaperMachine(ProvingMachine):
    """A machine with paper builds, which are not compiled: their programs' bytes depend only on the tree."""

    @property
    def store(self) -> Store:
        return PaperStore(cache_places().builds)

    def inputs(self, source: Source) -> Inputs:
        """Return inputs with only a key, because their build already exists."""
        stored = self.build(source)
        PaperStore.made[stored.key] = stored
        inputs: Any = SimpleNamespace(key=SimpleNamespace(hex=stored.key))
        found: Inputs = inputs
        return found

    def build(self, source: Source) -> Stored:
        directory = cache_places().builds / source.tree
        inputs: dict[str, Any] = {
            "schema": "patchstack.build-key/1",
            "recipe": 1,
            "tree": source.tree,
            "architecture": None,
            "cmake": {},
            "compile": {},
            "targets": ["toy"],
            "toolchain": f"sha256:{'7' * 64}",
        }
        if not directory.is_dir():
            rows = any(step.subject == ROWS for step in source.steps)
            name = f"newer {source.tree} with{'' if rows else 'out'} rows "
            write_programs(directory / "bin", name)
            for program in ROWS_PROGRAMS if rows else ROWS_PROGRAMS[:1]:
                (directory / "bin" / program).write_bytes(f"{program} of the {name} build\n".encode())
        key = hashlib.sha256(canonical(inputs)).hexdigest()
        proof = Proof(id="exists", verdict=Verdict.PASS, detail="there")
        record = a_record(
            key, label=source.label, variant="paper", platform="linux/arm64", inputs=inputs, proofs=(proof,)
        )
        return Stored(key=key, directory=directory, record=record)

    @contextlib.contextmanager
    def _running(self, stored: Stored) -> Iterator[Runner]:
        with Runner(
            self.connection.engine,
            dataclasses.replace(programs_of(stored, isolated=self.connection.engine.about().isolated), gpus=False),
            observations=self.known.cache,
            memory=cache_places().digests,
            context=RunContext(kind=""),
            hardware="linux/arm64; Neoverse V2; no gpu",
            again=self.again,
            recorded=self.recorded,
        ) as runner:
            yield runner

    def runner(self, stored: Stored) -> contextlib.AbstractContextManager[Runner]:
        return self._running(stored)


@dataclass(slots=True)
class Decided:
    """A workspace with a fork, a series and decisions."""

    root: Path
    toy: Toy
    cache: Path
    engine: FixedEngine = field(default_factory=FixedEngine)
    policy: Path | None = None
    """The workspace file whose words count, if it is another than that of the work tree."""

    @property
    def workspace(self) -> Workspace:
        head = self.root / "patchstack.yaml"
        return _workspace_of(head, self.policy, head.read_bytes(), self.policy and self.policy.read_bytes())

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.root / "ledger")

    @property
    def evidence(self) -> Evidence:
        return Evidence(self.root / "evidence")

    @property
    def known(self) -> Known:
        places = cache_places()
        return Known(cache=Observations(places.observations, places.outputs))

    def commit(self, subject: str, body: str = "") -> str:
        """Add a commit to the fork, with a message that has this body."""
        repo = self.toy.fork.repo
        commit = repo.commit(subject, {"main.c": f"{MAIN}// {subject}\n"}, body=body)
        self.toy.fork.commits.append(commit)
        return commit

    def accept(
        self, commit: str, *, again: bool = False, signers: Signers | None = None, reason: str | None = None
    ) -> Accepted:
        """Accept a commit of the fork; `reason` is for a switch without a gate."""
        workspace = self.workspace
        cache = Cache(lambda: self.cache, offline=True)
        way = open_candidates(workspace.series[0], cache, commit)
        machine = self._machine(again=again, signers=signers)
        suites = read_suites(workspace)
        bring = functools.partial(read_brought, workspace) if workspace.policy is not None else None
        brings = read_brings(brought(way), suites, reason, asked="quick", bring=bring)
        suite = find_suite(suites, "quick", workspace.path)
        with mock.patch("patchstack.workflow.candidate.acceptance.check_ready"):  # paper needs no compiler
            return accept(
                way,
                described(way),
                cache,
                Terms(suite=suite, bench=read_terms(workspace), brings=brings),
                machine,
                self.ledger,
                why="It is good.",
                told=lambda step, seconds: None,
                decided=lambda path: None,
            )

    def builds(self, commit: str) -> tuple[Stored, Stored]:
        """Return the builds before a candidate and with it."""
        way = open_candidates(self.workspace.series[0], Cache(lambda: self.cache, offline=True), commit)
        machine = self._machine()
        return machine.build(way.source(way.before)), machine.build(way.source(way.head))

    def _machine(self, *, again: bool = False, signers: Signers | None = None) -> PaperMachine:
        from patchstack.workflow.ledger.recorded import signed_evidence

        return PaperMachine(
            workspace=self.workspace,
            connection=Connection(engine=self.engine, open_another=lambda: self.engine, tell=lambda _: None),
            request=Request(),
            variants=load_variants(self.workspace.variants),
            default=None,
            purpose="test",
            allow=(),
            offline=True,
            watching=contextlib.nullcontext,  # type: ignore[arg-type]
            again=again,
            recorded=signed_evidence(self.root, signers) if signers is not None else None,
        )

    def check(self, signers: Signers | None = None, *, require_signed: bool = False) -> LedgerCheck:
        """Check the ledger as a person does who has only a clone."""
        workspace = self.workspace
        empty = self.root.parent / "empty-cache"
        return check_ledger(workspace, Cache(lambda: empty, offline=True), signers, require_signed=require_signed)

    def wrong(self, signers: Signers | None = None, *, require_signed: bool = False) -> list[str]:
        """Return the problems of the ledger and of every decision."""
        found = self.check(signers, require_signed=require_signed)
        return [*found.problems, *(text for one in found.decisions for text in one.findings.wrong)]

    def decision(self, subject: str) -> Decision:
        """Return the newest decision on a commit of that subject."""
        return next(one for one in self.ledger.read() if one.candidates[-1].subject == subject)

    def rewrite(self, decision: Decision, **changes: Any) -> Decision:
        """Replace a decision by a changed one, named by its content, as a forger would."""
        forged = dataclasses.replace(decision, **changes)
        (self.ledger.directory / f"{decision.id}.json").unlink()
        self.ledger.write(forged)
        return forged

    def evidence_document(self, decision: Decision) -> dict[str, Any]:
        """Return a copy of a decision's evidence, for changes."""
        found: dict[str, Any] = json.loads(json.dumps(dict(decision.evidence)))
        return found


@functools.lru_cache(maxsize=16)
def _workspace_of(head: Path, policy: Path | None, *contents: bytes | None) -> Workspace:
    """Read a workspace, and again only if one of its files has other contents."""
    return read_workspace(head) if policy is None else governed(head, policy, "the policy")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """What `decide` has made once. Decisions and observations do not depend on where they are, and their names are
    digests; the rest names its place. `files` and `sizes` are what the engine kept."""

    world: KeptTree
    decided: KeptTree
    cache: KeptTree
    pin: str
    commits: tuple[str, ...]
    files: Mapping[str, Mapping[str, bytes]]
    sizes: Mapping[str, int]


_DECIDED = ("ledger", "evidence")
_kept: list[_Kept] = []


def decide(directory: Path, cache: Path) -> Decided:
    """Make the workspace, and accept both commits of its fork: once, then it is written again. `cache` is the cache of
    this process."""
    assert cache_places().builds.is_relative_to(cache)
    if not _kept:
        made = _decide(directory, cache)
        fork = made.toy.fork
        names = [name for name in os.listdir(directory) if name not in _DECIDED]
        _kept.append(
            _Kept(
                world=KeptTree.of(directory, *names),
                decided=KeptTree.of(directory, *_DECIDED, verbatim=True),
                cache=KeptTree.of(cache, *os.listdir(cache), verbatim=True),
                pin=fork.pin,
                commits=tuple(fork.commits),
                files={volume: dict(files) for volume, files in made.engine.files.items()},
                sizes=dict(made.engine.kept),
            )
        )
        return made
    (kept,) = _kept
    for tree, place in ((kept.world, directory), (kept.decided, directory), (kept.cache, cache)):
        tree.write(place)
    repo = RepoBuilder(directory / "fork", commits=len(kept.commits))
    repo.on = "product"
    fork = Fork(
        upstream=RepoBuilder(directory / "upstream", commits=2),
        pin=kept.pin,
        repo=repo,
        ref="product",
        commits=[*kept.commits],
        series=directory / "patches",
    )
    engine = FixedEngine(files={volume: dict(files) for volume, files in kept.files.items()}, kept=dict(kept.sizes))
    return Decided(root=directory, toy=Toy(root=directory, fork=fork, engine="host"), cache=cache, engine=engine)


def _decide(directory: Path, cache: Path) -> Decided:
    directory.mkdir(parents=True, exist_ok=True)
    toy = a_toy(directory, "host")
    shutil.rmtree(toy.fork.series)
    text = (directory / "patchstack.yaml").read_text()
    text = text.replace("variants:\n", "variants:\n  paper: {targets: [toy]}\n").replace(
        "variant: cpu\n", f"variant: paper\n    fork: {toy.fork.repo.path}\n    fork_ref: product\n"
    )
    # Relative, so that the decisions do not name this directory.
    for path in (toy.fork.series, toy.fork.upstream.path, toy.fork.repo.path):
        text = text.replace(f": {path}\n", f": {path.name}\n")
    (directory / "patchstack.yaml").write_text(text + SUITES)
    (directory / "one.gguf").write_bytes(b"GGUF one")
    for name in ("text.txt", "cases.txt"):
        shutil.copy(Path(__file__).parent.parent / "data" / "observation_keys" / name, directory / name)
    made = Decided(root=directory, toy=toy, cache=cache)
    for commit in toy.fork.commits:
        done = made.accept(commit)
        assert done.decision is not None, [(one.name, one.detail) for one in done.steps if one.verdict != "PASS"]
    return made


def decide_on_switches(made: Decided) -> None:
    """Accept a commit that adds a switch with its gates, and one that adds a switch without gates."""
    for subject, body, reason in ((ROWS, TRAILERS, None), (UNPROVEN, "Switch: TOY_LOUD", REASON)):
        done = made.accept(made.commit(subject, body), reason=reason)
        assert done.decision is not None, [(one.name, one.detail) for one in done.steps if one.verdict != "PASS"]


def changed_record(made: Decided, digest: str, changes: Mapping[str, Any]) -> str:
    """Write a record with changed top-level fields, and return its new digest. The old one stays."""
    document = json.loads((made.evidence.records / f"{digest}.json").read_bytes())
    content = indented({**document, **changes})
    name = hashlib.sha256(content).hexdigest()
    (made.evidence.records / f"{name}.json").write_bytes(content)
    return name


def steps_of(evidence: Mapping[str, Any], gate: str) -> Sequence[dict[str, Any]]:
    """Return the steps of a gate, for changes."""
    return [step for step in evidence["steps"] if step.get("gate") == gate]
