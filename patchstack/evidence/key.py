"""The key of an observation: one digest of everything that can change what is seen."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from patchstack.canonical import canonical

SCHEMA = "patchstack.observation-key/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingredients:
    """What a run is made of. `programs` is the digest of the build's files; `args` still name models and inputs by
    their names, whose digests are in `models` and `inputs`; `env` is the whole environment asked for; `requests` are
    what a server is asked, as JSON; `hardware` says what it runs on (GPU, driver, platform); `kind` is the gate kind
    with its version; `salt` makes a repetition one of its own."""

    programs: str
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


def observation_key(ingredients: Ingredients) -> str:
    """64 hexadecimal digits: SHA-256 of the canonical JSON of the ingredients."""
    return hashlib.sha256(canonical({"schema": SCHEMA, **asdict(ingredients)})).hexdigest()
