"""The build key: one digest of all that can change the binaries."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from patchstack.builds.inputs.plan import Plan
from patchstack.builds.inputs.source import Source
from patchstack.canonical import canonical

RECIPE_VERSION = 1
"""Changes with the commands that `patchstack.builds.run.recipe` gives: binaries of older ones are not taken for new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """What compiles. `digest` (sha256:…) stands for all of it: a container image's, with a mounted toolkit's, or the
    host's programs'. `versions` name the tools; `cuda` is the toolkit's version if there is one."""

    digest: str
    versions: Mapping[str, str]
    cuda: tuple[int, int] | None = None
    image: str | None = None
    image_digest: str | None = None
    toolkit_digest: str | None = None
    base_image: str | None = None
    base_digest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A build key: 64 hexadecimal digits, and the inputs they are the SHA-256 of (canonical JSON)."""

    hex: str
    inputs: Mapping[str, Any]

    @property
    def short(self) -> str:
        return self.hex[:12]


def build_key(source: Source, plan: Plan, toolchain: Toolchain, processor: str | None = None) -> Key:
    """Return the key of a build.

    The tree, the definitions, the architecture, the targets, the platform and the toolchain are in it, and the
    `processor` for code made for it alone. The names of series and variant, the number of jobs, limits, and where the
    engine is are not: they change no byte. The key is carried into the binaries, so it cannot be part of itself.
    """
    inputs: dict[str, object] = {
        "schema": "patchstack.build-key/1",
        "recipe": RECIPE_VERSION,
        "tree": source.tree,
        "absent": sorted(source.absent),
        "platform": plan.platform.value,
        "architecture": plan.arch.cmake if plan.arch else None,
        "cmake": {name: setting.value for name, setting in sorted(plan.cmake.items())},
        "compile": {name: setting.value for name, setting in sorted(plan.compile.items())},
        "commit_variable": plan.commit_variable,
        "targets": sorted(set(plan.targets.value)),
        "toolchain": toolchain.digest,
        "processor": processor if plan.native else None,
    }
    if plan.optional_targets is not None:
        inputs["optional_targets"] = sorted(set(plan.optional_targets.value))
    return Key(hex=hashlib.sha256(canonical(inputs)).hexdigest(), inputs=inputs)
