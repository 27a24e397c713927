"""Observations on disk: one JSON file each, named by its key. Long outputs lie in the cache, by the sha256 of them."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchstack.canonical import indented
from patchstack.files.atomic import replace_file

SCHEMA = "patchstack.observation/1"
_INLINE = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """An observation as it is kept. `blobs` are its outputs by name (`stdout`, `reply-0`, `file:base.txt`); `facts` all
    else, as JSON."""

    key: str
    facts: Mapping[str, Any]
    blobs: Mapping[str, bytes]


class Observations:
    """Observations below a directory, long outputs below another."""

    def __init__(self, directory: Path, outputs: Path) -> None:
        self.directory = directory
        self.outputs = outputs

    def find(self, key: str) -> Record | None:
        """The record of that key. One that is damaged, or whose outputs are not there (or not what they were), is none:
        it is observed anew."""
        try:
            document = json.loads(self._path(key).read_text(encoding="utf-8"))
            if document["schema"] != SCHEMA or document["key"] != key:
                return None
            blobs = {name: self._read(entry) for name, entry in document["outputs"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        if any(blob is None for blob in blobs.values()):
            return None
        return Record(
            key=key, facts=document["facts"], blobs={name: blob for name, blob in blobs.items() if blob is not None}
        )

    def keep(self, record: Record) -> Path:
        """Write a record down, whole or not at all, and give its file."""
        self.directory.mkdir(parents=True, exist_ok=True)
        document = {
            "schema": SCHEMA,
            "key": record.key,
            "facts": dict(record.facts),
            "outputs": {name: self._write(blob) for name, blob in record.blobs.items()},
        }
        path = self._path(record.key)
        replace_file(path, indented(document))
        return path

    def _path(self, key: str) -> Path:
        return self.directory / f"{key}.json"

    def _write(self, blob: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(blob).hexdigest()
        entry: dict[str, Any] = {"sha256": digest, "size": len(blob)}
        if len(blob) <= _INLINE:
            try:
                entry["text"] = blob.decode("utf-8")
            except UnicodeDecodeError:
                entry["base64"] = base64.b64encode(blob).decode("ascii")
            return entry
        self.outputs.mkdir(parents=True, exist_ok=True)
        replace_file(self.outputs / digest, blob)
        return entry

    def _read(self, entry: Mapping[str, Any]) -> bytes | None:
        if "text" in entry:
            blob = str(entry["text"]).encode("utf-8")
        elif "base64" in entry:
            blob = base64.b64decode(str(entry["base64"]), validate=True)
        else:
            try:
                blob = (self.outputs / Path(str(entry["sha256"])).name).read_bytes()
            except OSError:
                return None
        return blob if hashlib.sha256(blob).hexdigest() == entry["sha256"] else None
