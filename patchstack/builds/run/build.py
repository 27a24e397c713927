"""Find a build by its key, or make it: compile, prove, and write provenance and record."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from patchstack.builds.inputs.key import Key, Toolchain, build_key
from patchstack.builds.inputs.plan import Plan
from patchstack.builds.inputs.source import Source
from patchstack.builds.proofs.claim import Claim, ProgramOutput
from patchstack.builds.proofs.files import Binary, binaries
from patchstack.builds.proofs.prove import find_cuobjdump, prove_build
from patchstack.builds.record.provenance import write_provenance
from patchstack.builds.record.record import make_record
from patchstack.builds.record.store import LOG, Store, Stored
from patchstack.builds.run.recipe import ccache_rate
from patchstack.builds.run.session import Session, SessionResult, Watch, open_session
from patchstack.causes import PackageMissing
from patchstack.engine.protocol import Engine
from patchstack.errors import MissingError, PatchstackError
from patchstack.installed import install_hint
from patchstack.verdict import Verdict

PROVING = {"in_toto_attestation": "in-toto-attestation", "elftools": "pyelftools"}
"""The Python modules that proofs and provenance need, with the names of their packages."""


def missing_packages() -> list[str]:
    """Return the names of the packages that proofs and provenance need, but that are not installed."""
    return [package for module, package in PROVING.items() if importlib.util.find_spec(module) is None]


def require_packages() -> None:
    """Raise `MissingError` if packages for proofs or provenance are not installed. The error names all of them."""
    if missing := missing_packages():
        raise PackageMissing(
            f"a build needs packages that are not installed: {', '.join(missing)}", hint=install_hint("build")
        )


_DISASSEMBLED = frozenset({"cuda-arch", "cuda-ptx", "fp4"})
"""The proofs that need cuobjdump."""
_FP4 = (b"kind::mxf4", b"kind::mxf4nvf4")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of a build. `processor` is set for native code only."""

    source: Source
    plan: Plan
    toolchain: Toolchain
    processor: str | None = None

    @property
    def key(self) -> Key:
        return build_key(self.source, self.plan, self.toolchain, self.processor)


def build(
    inputs: Inputs, engine: Engine, store: Store, watch: Watch, *, again: bool = False, keep: bool = False
) -> tuple[Stored, bool]:
    """Return the build of these inputs, and whether it already existed.

    With `again`, the build is made even if it exists. With `keep`, the work volume is not removed, so that it can be
    inspected.

    A source that does not compile also gets a record, with the status `rejected`. Without `again`, such a source is not
    compiled again. Raises the errors of the engine, of `Session.compile` and of `explain`. Raises `MissingError` if a
    needed package is not installed.
    """
    key = inputs.key
    if not again and (found := _usable(store, key, inputs, watch)) is not None:
        return found, True
    require_packages()  # checked before compiling, which may take an hour
    if inputs.plan.cuda and find_cuobjdump() is None:
        watch.talk(
            "cuobjdump is not installed. If the build's CUDA toolkit lacks it too, the proofs of GPU code are INVALID "
            f"({install_hint('cuda')})"
        )

    def waiting(who: str) -> None:
        watch.talk(f"waiting for {who}, which makes the same build")

    with store.alone(key.hex, waiting):
        if not again and (found := _usable(store, key, inputs, watch)) is not None:
            return found, True
        started = datetime.now(UTC)
        with open_session(engine, inputs.plan, inputs.toolchain, key, store, watch, keep=keep) as session:
            try:
                session.send(inputs.source)
                made = session.compile()
                if not made.outcome.ok:
                    return _rejected(inputs, key, session, made, store, started), False
                session.fetch(made)
                return _finished(inputs, key, session, made, store, started), False
            except PatchstackError as error:
                _keep_log(store, key, session, error)
                raise


def _usable(store: Store, key: Key, inputs: Inputs, watch: Watch) -> Stored | None:
    """Return the stored build, or None if the build must be made.

    The build must be made if it is not stored, if its files were changed, or if it used ccache, which is now forbidden.
    Proofs that were not possible before are judged now (see `judged_again`).
    """
    found = store.find(key.hex)
    if found is None:
        return None
    if found.record.built:
        if found.record.options.ccache.value and inputs.plan.refuses_ccache:
            watch.talk(f"the stored build {key.short} was made with ccache; it is made again without ccache")
            return None
        recorded = set(found.record.binaries)
        if not recorded or recorded != set(_binaries(found.directory)):
            watch.talk(f"the stored build {key.short} was changed; it is made again")
            return None
        found = judged_again(store, found, inputs)
    store.touch(found)
    return found


def _binaries(directory: Path) -> tuple[Binary, ...]:
    try:
        return binaries(directory)
    except MissingError:
        return ()


def judged_again(store: Store, stored: Stored, inputs: Inputs) -> Stored:
    """Repeat the proofs that lacked cuobjdump, if cuobjdump is installed now.

    Proofs that run programs are not repeated, because a stored build is used without starting its programs.
    """
    proofs = stored.record.proofs
    left = {proof.id for proof in proofs if proof.verdict is Verdict.INVALID} & _DISASSEMBLED
    if not left or (cuobjdump := find_cuobjdump()) is None:
        return stored
    found = prove_build(stored.directory, claim(inputs), cuobjdump=cuobjdump, run=None)
    now = {proof.id: proof for proof in found if proof.id in left and proof.verdict is not Verdict.INVALID}
    if not now:
        return stored
    judged = tuple(now.get(proof.id, proof) for proof in proofs)
    return store.amend(stored, msgspec.structs.replace(stored.record, proofs=judged))


def claim(inputs: Inputs, session: Session | None = None) -> Claim:
    """Return the claims for the proofs of a build.

    No binary may contain the path of the user's home directory or, with `session`, the session's source path or build
    path.
    """
    plan = inputs.plan
    machine = [f"{Path.home()}/"] if str(Path.home()) != "/" else []
    if session is not None:
        machine += [f"{session.layout.source}/", f"{session.layout.build}/"]
    return Claim(
        key=inputs.key.hex,
        platform=plan.platform.value,
        architectures=(plan.arch.real,) if plan.arch is not None else (),
        targets=plan.targets.value,
        optional_targets=plan.optional_targets.value if plan.optional_targets is not None else (),
        machine_paths=tuple(machine),
        fp4_sources=plan.cuda and _has_fp4(inputs.source),
    )


def _has_fp4(source: Source) -> bool:
    """Return whether the source contains FP4 matrix instructions.

    Source: PTX ISA, `mma` with `kind::mxf4` or `kind::mxf4nvf4`.
    """
    return any(
        entry.data is not None and any(name in entry.data for name in _FP4) for entry in source.entries((".cu", ".cuh"))
    )


def _finished(
    inputs: Inputs, key: Key, session: Session, made: SessionResult, store: Store, started: datetime
) -> Stored:
    plan = inputs.plan

    def run(program: Path, arguments: tuple[str, ...]) -> ProgramOutput:
        code, output = session.try_out(str(program.relative_to(session.draft / "bin")), *arguments)
        return ProgramOutput(code=code, output=output)

    with session.timed("prove"):
        proofs = prove_build(session.draft, claim(inputs, session), cuobjdump=session.disassembler(), run=run)
    built = binaries(session.draft)
    finished = datetime.now(UTC)
    rate = ccache_rate(made.ccache) if plan.ccache.value else None
    write_provenance(
        session.draft,
        key=key,
        source=inputs.source,
        plan=plan,
        toolchain=inputs.toolchain,
        binaries=built,
        started=started,
        finished=finished,
        log_sha256=_sha256(made.log),
        ccache=rate,
    )
    record = make_record(
        key=key,
        source=inputs.source,
        plan=plan,
        toolchain=inputs.toolchain,
        started=started.isoformat(timespec="seconds"),
        finished=finished.isoformat(timespec="seconds"),
        seconds=made.seconds,
        ccache=rate,
        binaries=built,
        proofs=proofs,
        rejection=None,
    )
    return store.commit(key.hex, session.draft, record)


def _rejected(
    inputs: Inputs, key: Key, session: Session, made: SessionResult, store: Store, started: datetime
) -> Stored:
    from patchstack.builds.errors.rejection import (
        explain,  # imported late, because log patterns are slow to compile and most builds succeed
    )

    rejection = explain(made.log.read_bytes(), inputs.source, inputs.plan, session.layout)
    record = make_record(
        key=key,
        source=inputs.source,
        plan=inputs.plan,
        toolchain=inputs.toolchain,
        started=started.isoformat(timespec="seconds"),
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=made.seconds,
        ccache=None,
        binaries=(),
        proofs=(),
        rejection=rejection,
    )
    return store.commit(key.hex, session.draft, record)


def _keep_log(store: Store, key: Key, session: Session, error: PatchstackError) -> None:
    """Store the log of a build without a result, and name the file in the error."""
    log = session.draft / LOG
    if log.is_file() and log.stat().st_size:
        place = store.root / f"failed-{key.short}.log"
        shutil.copyfile(log, place)
        error.problems = (*error.problems, f"the log is in {place}")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
