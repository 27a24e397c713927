"""Write `provenance.json`, the provenance of a build.

The file is an in-toto statement (v1) with SLSA provenance (v1): the builder, inputs and outputs of the build.

Formats: https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md and
https://slsa.dev/spec/v1.0/provenance. The file is not signed, so it is evidence only for people who trust the machine.

`BUILD_TYPE` identifies the format of the parameters. External parameters are the choices of the user (variant,
architecture, platform, definitions, targets, ccache). Internal parameters are properties of the machine (engine,
limits) and the inputs of the build key. The id of the invocation is the build key.

The resolved dependencies are `Resource`s: `pin` (a git commit, with its tree), `source` (a git tree), `patches/…` (each
with its SHA-256), `fork/…` (each a git commit), `image`, `base image`, `toolkit` and `toolchain`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit, urlunsplit

import patchstack
from patchstack.builds.inputs.key import Key, Toolchain
from patchstack.builds.inputs.plan import Plan
from patchstack.builds.inputs.source import Source
from patchstack.builds.proofs.files import Binary
from patchstack.builds.record.store import LOG
from patchstack.canonical import indented
from patchstack.causes import PackageMissing, ProvenanceRefused, ProvenanceUnwritable
from patchstack.files.atomic import replace_file
from patchstack.installed import install_hint

if TYPE_CHECKING:
    from in_toto_attestation.predicates.provenance.v1.provenance_pb2 import Provenance as Predicate
    from in_toto_attestation.v1.statement import Statement


FILE = "provenance.json"
BUILD_TYPE = "urn:patchstack:build:1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
BUILDER = f"pkg:pypi/patchstack@{patchstack.__version__}"
"""The builder as a package URL. A build is as trustworthy as this program and the machine."""

Json: TypeAlias = "str | int | float | bool | Sequence[Json] | Mapping[str, Json] | None"
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_COMMIT = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_SCP_LIKE = re.compile(r"(?:[^/@:]+@)?([^/:@]{2,}):(?!//)(.+)\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A file that was built: its path below `bin`, and the SHA-256 of its content in hex."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """An input of a build, or an output that is not a binary.

    `digest` contains digests in hex, by algorithm (`sha256`, `gitCommit`, `gitTree`). `notes` are more facts, such as
    versions and numbers.
    """

    name: str
    digest: Mapping[str, str] = field(default_factory=dict)
    uri: str = ""
    notes: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """The facts of a build.

    `key` is the build key. `external` and `internal` are its parameters. `started` and `finished` have a time zone and
    microseconds. `builder` is a URI. `versions` are the versions of the builder's parts.
    """

    key: str
    subjects: tuple[Subject, ...]
    materials: tuple[Resource, ...]
    external: Mapping[str, Json]
    internal: Mapping[str, Json] = field(default_factory=dict)
    started: datetime
    finished: datetime
    byproducts: tuple[Resource, ...] = ()
    builder: str = BUILDER
    versions: Mapping[str, str] = field(default_factory=dict)


def pin(commit: str, *, tree: str | None = None, upstream: str | None = None) -> Resource:
    """Return the pin as a material.

    `upstream` is a URL or a path. Credentials are removed from a URL. A path is omitted, because it is valid only on
    the build machine.
    """
    location = public_url(upstream) if upstream else None
    return Resource(
        name="pin",
        uri=f"git+{location}@{commit}" if location else "",
        digest={"gitCommit": commit, **({"gitTree": tree} if tree else {})},
    )


def file(name: str, sha256: str, **notes: Json) -> Resource:
    """Return a file, such as a patch or a log, as a material or a byproduct."""
    return Resource(name=name, digest={"sha256": sha256}, notes=notes)


def image(reference: str, digest: str, *, name: str = "image", **notes: Json) -> Resource:
    """Return a container image as a material.

    `digest` is `sha256:…`. `reference` becomes a note, not the URI, because a local image is not available elsewhere.
    """
    return Resource(
        name=name, digest={"sha256": digest.removeprefix("sha256:")}, notes={"reference": reference, **notes}
    )


def public_url(url: str) -> str | None:
    """Return a URL in a form that can be published: without user, password and query.

    Returns None for a path of this machine, for a `file:` URL, and for an invalid URL.
    """
    if "://" not in url:
        match = _SCP_LIKE.match(url)
        return f"ssh://{match[1]}/{match[2].lstrip('/')}" if match else None
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return None
    if parts.scheme == "file" or not host:
        return None
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def render(provenance: Provenance) -> bytes:
    """Return the statement as JSON, with sorted keys, two spaces of indentation and a final newline.

    The same build always gives the same bytes.

    Raises `UsageError` if the statement would be invalid, for example without a subject, with an invalid digest, or
    with a time that has no zone. Raises `MissingError` if in-toto-attestation is not installed.
    """
    _libraries()
    from google.protobuf import json_format
    from in_toto_attestation.v1.statement import Statement

    try:
        predicate = json_format.MessageToDict(_predicate(provenance))
        subjects = [
            _descriptor(Resource(name=each.name, digest={"sha256": each.sha256})) for each in provenance.subjects
        ]
        statement = Statement(subjects, PREDICATE_TYPE, predicate)
        _check_subjects(statement)
        _check_rest(provenance)
    except (ValueError, TypeError, json_format.Error) as error:
        raise ProvenanceRefused(f"the provenance of this build cannot be written: {error}") from error
    return indented(_whole(json_format.MessageToDict(statement.pb)))


def write_statement(path: Path, provenance: Provenance) -> None:
    """Write the statement atomically.

    Raises the errors of `render`, and `MissingError` if the file cannot be written.
    """
    content = render(provenance)
    try:
        replace_file(path, content, mode=0o644)
    except OSError as error:
        raise ProvenanceUnwritable(f"{path} cannot be written: {error.strerror}") from error


def _predicate(provenance: Provenance) -> Predicate:
    from in_toto_attestation.predicates.provenance.v1.provenance_pb2 import Provenance as Predicate

    predicate = Predicate()
    build, run = predicate.build_definition, predicate.run_details
    build.build_type = BUILD_TYPE
    build.external_parameters.update(_plain(provenance.external))
    build.internal_parameters.update(_plain(provenance.internal))
    build.resolved_dependencies.extend(map(_descriptor, provenance.materials))
    run.builder.id = provenance.builder
    run.builder.version.update(provenance.versions)
    run.metadata.invocation_id = provenance.key
    run.metadata.started_on.FromDatetime(_utc(provenance.started))
    run.metadata.finished_on.FromDatetime(_utc(provenance.finished))
    run.byproducts.extend(map(_descriptor, provenance.byproducts))
    return predicate


def _check_subjects(statement: Statement) -> None:
    """Raise `ValueError` unless the statement is valid, and every subject has a unique name and a SHA-256."""
    statement.validate()
    names = set()
    for subject in statement.pb.subject:
        if not subject.name:
            raise ValueError("a subject has no name")
        if subject.name in names:
            raise ValueError(f"two subjects have the name {subject.name}")
        names.add(subject.name)
        _check_digest(subject.name, "sha256", subject.digest.get("sha256", ""))


def _check_rest(provenance: Provenance) -> None:
    """Raise `ValueError` if a digest is invalid, or if there are no external parameters."""
    _check_digest("the build key", "sha256", provenance.key)
    if not provenance.external:
        raise ValueError("it has no external parameters")
    for resource in (*provenance.materials, *provenance.byproducts):
        for algorithm, digest in resource.digest.items():
            _check_digest(resource.name, algorithm, digest)


def _check_digest(name: str, algorithm: str, digest: str) -> None:
    form = {"sha256": _SHA256, "gitCommit": _COMMIT, "gitTree": _COMMIT}.get(algorithm)
    if form is not None and not form.match(digest):
        raise ValueError(f"{name}: {digest!r} is not a valid {algorithm} digest")


def _descriptor(resource: Resource) -> Any:
    from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor

    described = ResourceDescriptor(
        name=resource.name, uri=resource.uri, digest=dict(resource.digest), annotations=_plain(resource.notes)
    )
    described.validate()
    return described.pb


def _plain(value: Any) -> Any:
    """Convert mappings and sequences in the value to dicts and lists, as protobuf's Struct requires."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [_plain(each) for each in value]
    return value


def _whole(value: Any) -> Any:
    """Convert whole numbers in the value back to integers, because protobuf's Struct turns 8 into 8.0."""
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError(f"{moment.isoformat()} has no time zone")
    return moment.astimezone(UTC)


def _libraries() -> None:
    try:
        import in_toto_attestation  # noqa: F401  (is it installed?)
    except ImportError as error:
        raise PackageMissing("in-toto-attestation is not installed", hint=install_hint("build")) from error


def write_provenance(
    directory: Path,
    *,
    key: Key,
    source: Source,
    plan: Plan,
    toolchain: Toolchain,
    binaries: Iterable[Binary],
    started: datetime,
    finished: datetime,
    log_sha256: str,
    ccache: Mapping[str, int] | None,
) -> Path:
    """Write `provenance.json` next to the binaries, and return its path. Raises the errors of `render`."""
    statement = Provenance(
        key=key.hex,
        subjects=tuple(Subject(name=one.name, sha256=one.sha256) for one in binaries),
        materials=tuple(_materials(source, toolchain)),
        external=_chosen(plan),
        internal={
            "engine": plan.engine.kind,
            "engineVersion": plan.engine.version,
            "isolated": plan.engine.isolated,
            "jobs": plan.jobs.value,
            "memory": plan.memory.value,
            "cpus": plan.cpus.value,
            "seconds": plan.seconds.value,
            "keyInputs": dict(key.inputs),
        },
        started=started,
        finished=finished,
        byproducts=(
            file(LOG, log_sha256),
            *((Resource(name="ccache", notes=dict(ccache)),) if ccache is not None else ()),
        ),
    )
    path = directory / FILE
    write_statement(path, statement)
    return path


def _materials(source: Source, toolchain: Toolchain) -> Iterable[Resource]:
    if source.base_commit is not None:
        yield pin(source.base_commit, tree=source.base_tree, upstream=source.upstream)
    yield Resource(name="source", digest={"gitTree": source.tree}, notes={"series": source.verdict})
    for step in source.steps:
        if step.commit is not None:
            yield Resource(name=f"fork/{step.commit}", digest={"gitCommit": step.commit, "gitTree": step.tree})
            continue
        yield file(f"patches/{step.file}", step.sha256, gitTreeAfter=step.tree)
    if toolchain.image is not None and toolchain.image_digest is not None:
        yield image(toolchain.image, toolchain.image_digest)
    if toolchain.base_image is not None and toolchain.base_digest is not None:
        yield image(toolchain.base_image, toolchain.base_digest, name="base image")
    if toolchain.toolkit_digest is not None:
        yield file("toolkit", toolchain.toolkit_digest.removeprefix("sha256:"))
    yield file("toolchain", toolchain.digest.removeprefix("sha256:"), versions=dict(toolchain.versions))


def _chosen(plan: Plan) -> Mapping[str, Json]:
    optional = {"optional_targets": list(plan.optional_targets.value)} if plan.optional_targets is not None else {}
    return {
        **optional,
        "variant": plan.variant,
        "arch": plan.arch.cmake if plan.arch else None,
        "platform": plan.platform.value,
        "cmake": {name: setting.value for name, setting in sorted(plan.cmake.items())},
        "compile": {name: setting.value for name, setting in sorted(plan.compile.items())},
        "targets": list(plan.targets.value),
        "ccache": plan.ccache.value,
    }
