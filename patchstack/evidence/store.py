"""Store observations on disk, each as one JSON file.

A file contains the ingredients of the observation's key. The outputs are in a separate directory.

`Observations` is a cache. Its files are named by key, and a newer observation replaces an older one. `Evidence` is the
basis of decisions. Its files are named by the digest of their content and are never replaced.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchstack.canonical import indented
from patchstack.errors import NotHeldError
from patchstack.evidence.key import key_of
from patchstack.evidence.outputs import Outputs
from patchstack.files.atomic import replace_file
from patchstack.files.regular import read_regular

SCHEMA = "patchstack.observation/2"
OLD_SCHEMA = "patchstack.observation/1"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MOST = 512 << 20  # maximum size of an uncompressed output in bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A stored observation.

    `ingredients` are the values from which the key was computed, as JSON (see `key.Ingredients`). `blobs` are the
    outputs by name (`stdout`, `reply-0`, `file:base.txt`). `facts` are all other values, as JSON.
    """

    key: str
    ingredients: Mapping[str, Any]
    facts: Mapping[str, Any]
    blobs: Mapping[str, bytes]

    def follows(self) -> bool:
        """Return whether the key matches the ingredients."""
        return key_of(self.ingredients) == self.key


class BadRecord(NotHeldError):
    """A record is damaged, does not match its name, or lacks an output.

    The message is the end of a sentence that begins with "record NAME".
    """

    code = "PS0719"


class Observations:
    """A cache of observations by key. Outputs are in a separate directory."""

    def __init__(self, directory: Path, outputs: Path) -> None:
        self.directory = directory
        self.outputs = Outputs(outputs)

    def find(self, key: str) -> Record | None:
        """Return the record with this key. Return None if it is missing or damaged, or if an output is missing."""
        try:
            record = _decoded(read_regular(self._path(key)), self.outputs)
        except (OSError, BadRecord):
            return None
        return record if record.key == key else None

    def keep(self, record: Record) -> Path:
        """Write a record atomically, and return its file."""
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self._path(record.key)
        replace_file(path, _encoded(record, self.outputs))
        return path

    def _path(self, key: str) -> Path:
        return self.directory / f"{key}.json"


class Evidence:
    """The records in a directory, and their outputs.

    Files are named by digest: `records/SHA256.json` and `outputs/SHA256.gz`. Digests come from decisions, which are
    untrusted. A string that is not a digest is refused.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.records = directory / "records"
        self.outputs = Outputs(directory / "outputs")

    def keep(self, record: Record) -> str:
        """Store a record, and return the SHA-256 of its file."""
        content = _encoded(record, self.outputs)
        digest = hashlib.sha256(content).hexdigest()
        path = self.records / f"{digest}.json"
        if not path.is_file() or path.read_bytes() != content:
            self.records.mkdir(parents=True, exist_ok=True)
            replace_file(path, content)
        return digest

    def read(self, digest: str) -> Record:
        """Return the record with this digest, after checking the record and its outputs.

        Raises `BadRecord` if the record or one of its outputs is missing or damaged.
        """
        try:
            if _DIGEST.fullmatch(digest) is None:
                raise BadRecord("has a name that is not a digest")
            content = read_regular(self.records / f"{digest}.json")
        except OSError as error:
            raise BadRecord(f"cannot be read: {error.strerror or error}") from error
        if hashlib.sha256(content).hexdigest() != digest:
            raise BadRecord("has content that does not match its name")
        return _decoded(content, self.outputs)

    def digests(self) -> Iterator[str]:
        """Return the digests of all records, sorted, without reading the files."""
        return _names(self.records, ".json")

    def old_keys(self) -> Iterator[str]:
        """Return the keys of all records of format 1, sorted.

        These records lack some outputs and the ingredients of their keys.
        """
        return _names(self.directory, ".json")

    def old_problem(self, key: str) -> str | None:
        """Return the problem with a record of format 1. Return None if no problem is found.

        Outputs that were not stored cannot be checked.
        """
        try:
            document = json.loads(read_regular(self.directory / f"{key}.json"))
            if document["schema"] != OLD_SCHEMA or document["key"] != key:
                return "is not the record of format 1 with this key"
            for name, entry in document["outputs"].items():
                kept = _old_output(entry)
                if kept is not None and hashlib.sha256(kept).hexdigest() != entry["sha256"]:
                    return f"has a {name} that does not match its digest"
        except OSError as error:
            return f"cannot be read: {error.strerror or error}"
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            return f"is damaged: {type(error).__name__}"
        return None


def _encoded(record: Record, outputs: Outputs) -> bytes:
    """Store the outputs of a record, and return the content of the record's file."""
    document = {
        "schema": SCHEMA,
        "key": record.key,
        "ingredients": dict(record.ingredients),
        "facts": dict(record.facts),
        "outputs": {name: {"sha256": outputs.keep(blob), "size": len(blob)} for name, blob in record.blobs.items()},
    }
    return indented(document)


def _decoded(content: bytes, outputs: Outputs) -> Record:
    try:
        document = json.loads(content)
        schema, key, ingredients = document["schema"], document["key"], document["ingredients"]
        facts, entries = document["facts"], document["outputs"]
        if schema != SCHEMA:
            raise BadRecord(f"has the schema {schema}, not {SCHEMA}")
        if not isinstance(ingredients, dict) or not isinstance(facts, dict) or key_of(ingredients) != key:
            raise BadRecord("has a key that does not match its ingredients")
        blobs = {str(name): _output(str(name), entry, outputs) for name, entry in entries.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadRecord(f"is damaged: {type(error).__name__}: {error}") from error
    return Record(key=key, ingredients=ingredients, facts=facts, blobs=blobs)


def _output(name: str, entry: Mapping[str, Any], outputs: Outputs) -> bytes:
    digest, size = str(entry["sha256"]), int(entry["size"])
    content = outputs.read(digest, size) if size <= _MOST else None
    if content is None:
        raise BadRecord(f"lacks its {name}: output {digest[:12]} with {size} bytes is missing or damaged")
    return content


def _old_output(entry: Mapping[str, Any]) -> bytes | None:
    if "text" in entry:
        return str(entry["text"]).encode("utf-8")
    return base64.b64decode(str(entry["base64"]), validate=True) if "base64" in entry else None


def _names(directory: Path, suffix: str) -> Iterator[str]:
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        name = path.name.removesuffix(suffix)
        if name != path.name and _DIGEST.fullmatch(name):
            yield name
