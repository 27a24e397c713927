"""Pack a comparison with all its runs into one file.

The file can be moved to a different machine, or stored as evidence. It is a `patchstack.comparison/1` document. After
`unpack`, the comparison can be judged again from the outputs of its runs. `unpack` rejects the file if the key of a run
does not match the run's ingredients, or if the key of a build does not match the build's inputs.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from patchstack.bench.pairs import PairRecord, pair_file, read_record
from patchstack.bench.plan import Plan, is_named, read_plan, write_plan
from patchstack.canonical import canonical, one_line
from patchstack.causes import ComparisonDamaged, InputMissing, NoComparison
from patchstack.document import Document, Part
from patchstack.evidence.store import Observations, Record
from patchstack.files.atomic import replace_file

BUILDS = "builds.json"
_MOST = 256 << 20  # limit for the uncompressed file, in bytes


class BundledRun(Part, frozen=True, kw_only=True):
    """The record of a run. The `key` is computed from the `ingredients`. `facts` are not part of the key. `outputs`
    contains the outputs by name, in base64."""

    key: str
    ingredients: dict[str, Any]
    facts: dict[str, Any]
    outputs: dict[str, str]


class Bundle(Document, frozen=True, kw_only=True, tag="patchstack.comparison/1"):
    """A comparison with the records of its pairs and runs. `builds` contains the build inputs of both sides, by build
    key."""

    plan: Plan
    pairs: tuple[PairRecord, ...]
    runs: tuple[BundledRun, ...]
    builds: dict[str, dict[str, Any]]


def pack(directory: Path, observations: Observations, builds: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Return the uncompressed content of the file for a packed comparison.

    `builds` contains the build inputs that are recorded on this machine, by build key. The file includes the build
    inputs of both sides if they are in `builds` or were unpacked earlier. Raises `MissingError` if a run is missing.
    Also raises the errors of `read_plan` and `read_record`.
    """
    plan = read_plan(directory)
    pairs: list[PairRecord] = []
    while (record := read_record(plan, directory, len(pairs) + 1)) is not None:
        pairs.append(record)
    runs = {}
    for pair in pairs:
        for run in pair.runs:
            kept = observations.find(run.key)
            if kept is None:
                raise NoComparison(
                    f"comparison {plan.comparison} cannot be packed: run {run.slot} of pair {pair.number} is missing",
                    hint="run 'patchstack bench ab' to make a new comparison",
                )
            runs[kept.key] = _bundled(kept)
    known = {**read_builds(directory), **builds}
    keys = sorted({side.key for side in (plan.a, plan.b) if side.key is not None} & known.keys())
    bundle = Bundle(
        plan=plan,
        pairs=tuple(pairs),
        runs=tuple(runs[key] for key in sorted(runs)),
        builds={key: dict(known[key]) for key in keys},
    )
    return one_line(msgspec.to_builtins(bundle)).encode()


def unpack(content: bytes, comparisons: Path, observations: Observations) -> Path:
    """Store a packed comparison with its runs under `comparisons`. Return its directory.

    If the comparison already exists there, only missing pairs and runs are added. Raises `ConfigError` if the content
    is not a comparison, was changed, or contradicts the stored comparison.
    """
    try:
        bundle = msgspec.json.decode(content, type=Bundle)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ComparisonDamaged(f"the file was not written by 'patchstack bench pack': {error}") from error
    if not is_named(bundle.plan):
        raise ComparisonDamaged(
            f"the plan of comparison {bundle.plan.comparison} was changed: it does not match its name"
        )
    for key, inputs in bundle.builds.items():
        if key_problem(key, inputs):
            raise ComparisonDamaged(f"the inputs of build {key[:12]} do not match its key: the file was changed")
    records = [_record(run, bundle.plan) for run in bundle.runs]
    directory = comparisons / bundle.plan.comparison
    for number, pair in enumerate(bundle.pairs, 1):
        there = read_record(bundle.plan, directory, number)
        if pair.number != number or there not in (None, pair):
            raise ComparisonDamaged(f"pair {number} of {bundle.plan.comparison} already exists with different content")
    for record in records:
        known = observations.find(record.key)
        if known is not None and known.blobs != record.blobs:
            raise ComparisonDamaged(f"run {record.key[:12]} already exists with different output")
        if known is None:
            observations.keep(record)
    write_plan(bundle.plan, comparisons)
    for pair in bundle.pairs:
        replace_file(directory / pair_file(pair.number), pair.indented)
    if bundle.builds:
        replace_file(directory / BUILDS, msgspec.json.encode({**read_builds(directory), **bundle.builds}))
    return directory


def _record(run: BundledRun, plan: Plan) -> Record:
    """Return the record of a packed run.

    Raises `ConfigError` if the run is damaged or does not belong to the comparison. Without these checks, a changed
    file could store a record that a gate then uses.
    """
    try:
        blobs = {name: base64.b64decode(text, validate=True) for name, text in run.outputs.items()}
    except (binascii.Error, ValueError) as error:
        raise ComparisonDamaged(f"run {run.key[:12]} has an output that cannot be read: {error}") from error
    record = Record(key=run.key, ingredients=run.ingredients, facts=run.facts, blobs=blobs)
    if not record.follows():
        raise ComparisonDamaged(f"run {run.key[:12]} has a key that does not match its ingredients")
    if not str(run.ingredients.get("salt")).startswith(f"comparison {plan.comparison} pair "):
        raise ComparisonDamaged(f"run {run.key[:12]} does not belong to comparison {plan.comparison}")
    return record


def read_packed(file: Path) -> bytes:
    """Return the uncompressed content of a file that `bench pack` wrote.

    Raises `MissingError` if the file cannot be read, and `ConfigError` if it is damaged, too large, or not a gzip file.
    """
    try:
        with gzip.open(file) as stream:
            content = stream.read(_MOST + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ComparisonDamaged(f"{file} was not written by 'patchstack bench pack': {error}") from error
    except OSError as error:
        raise InputMissing(f"{file} cannot be read: {error.strerror}") from error
    if len(content) > _MOST:
        raise ComparisonDamaged(f"{file} is too large: it contains more than {_MOST >> 20} MiB")
    return content


def read_builds(directory: Path) -> dict[str, dict[str, Any]]:
    """Return the build inputs that were unpacked with a comparison, by build key.

    Inputs that do not match their key are skipped. Returns no inputs if their file is missing or damaged.
    """
    try:
        found = msgspec.json.decode((directory / BUILDS).read_bytes(), type=dict[str, dict[str, Any]])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return {key: inputs for key, inputs in found.items() if not key_problem(key, inputs)}


def key_problem(key: str, inputs: Mapping[str, Any]) -> bool:
    """Return whether the inputs of a build do not match the build's key."""
    return hashlib.sha256(canonical(inputs)).hexdigest() != key


def _bundled(record: Record) -> BundledRun:
    return BundledRun(
        key=record.key,
        ingredients=dict(record.ingredients),
        facts=dict(record.facts),
        outputs={name: base64.b64encode(blob).decode() for name, blob in record.blobs.items()},
    )
