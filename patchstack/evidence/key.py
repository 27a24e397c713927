"""Compute the key of an observation: a digest of everything that can change the result.

The version of the scheme is part of every key, so a record of an older scheme is never reused. Scheme 1 used one digest
for all files of a build, and its records do not contain the ingredients of their keys.
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
    """The inputs of a run.

    `programs` are the digests of the files that the program may load, including the program itself (see
    `observe.loaded`). `args` refer to models and inputs by name. `models` and `inputs` contain the digests, by name.
    `env` is the whole requested environment. `keeps` are the created files that later runs use, and `brings` are the
    created files that become part of the observation. `requests` are the requests to a server, as JSON. `hardware`
    describes the GPU, driver, platform and image. `kind` is the gate kind with its version. `salt` is empty for the
    first run and different for each repetition, so that every run has its own key.
    """

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
        """Return the ingredients as JSON. A record contains this form, and the key is computed from it."""
        return {"schema": SCHEMA, **asdict(self)}


def observation_key(ingredients: Ingredients) -> str:
    """Return the SHA-256 of the canonical JSON of the ingredients, as 64 hexadecimal digits."""
    return key_of(ingredients.document())


def key_of(document: Mapping[str, Any]) -> str:
    """Return the key for ingredients that are already JSON, such as those in a record."""
    return hashlib.sha256(canonical(document)).hexdigest()
