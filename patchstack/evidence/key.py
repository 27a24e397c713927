"""The key of an observation: one digest of everything that can change what is seen.

The scheme has a version, which is part of every key. A record of an older scheme is never taken for one of this scheme.
Scheme 1 counted every file of the build as one digest, and its records do not hold what their key was made from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from patchstack.canonical import canonical

SCHEMA = "patchstack.observation-key/2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingredients:
    """What a run is made of. `programs` are the files that the program may load, itself among them, with their digests
    (see `observe.loaded`); `args` still name models and inputs by their names, whose digests are in `models` and
    `inputs`; `env` is the whole environment asked for; `requests` are what a server is asked, as JSON; `hardware` says
    what it runs on (GPU, driver, platform); `kind` is the gate kind with its version; `salt` makes a repetition one of
    its own."""

    programs: Mapping[str, str]
    program: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    models: Mapping[str, str]
    inputs: Mapping[str, str]
    keeps: tuple[str, ...]
    brings: tuple[str, ...]
    requests: tuple[str, ...]
    hardware: str
    kind: str
    salt: str

    def document(self) -> dict[str, Any]:
        """Return them as JSON, the form that a record holds and the key is made of."""
        return {"schema": SCHEMA, **asdict(self)}


def observation_key(ingredients: Ingredients) -> str:
    """64 hexadecimal digits: SHA-256 of the canonical JSON of the ingredients."""
    return key_of(ingredients.document())


def key_of(document: Mapping[str, Any]) -> str:
    """Return the key that follows from ingredients as a record holds them."""
    return hashlib.sha256(canonical(document)).hexdigest()
