"""Compute the build key: one digest of everything that can change the binaries."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from patchstack.builds.inputs.plan import Plan
from patchstack.builds.inputs.source import Source
from patchstack.canonical import canonical

RECIPE_VERSION = 1
"""The version of the commands in `patchstack.builds.run.recipe`.

A new version prevents the reuse of binaries that were built with older commands.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """The compilers.

    `digest` (`sha256:…`) covers all compilers. For a container, it is the digest of the image, or one digest of image
    and toolkit if a toolkit is mounted. On the host, it is a digest of the compilers, the toolkit and the versions.
    `versions` are the versions of the tools. `cuda` is the version of the CUDA toolkit (major, minor), or None without
    a toolkit.
    """

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
    """A build key and the inputs that it was computed from.

    `hex` is the SHA-256 of the inputs' canonical JSON, as 64 hexadecimal digits.
    """

    hex: str
    inputs: Mapping[str, Any]

    @property
    def short(self) -> str:
        return self.hex[:12]


def build_key(source: Source, plan: Plan, toolchain: Toolchain, processor: str | None = None) -> Key:
    """Return the key of a build.

    It depends on the tree, its absent files, the definitions, the architecture, the targets, the platform, the
    toolchain, and the version of the recipe. For native code, it also depends on the `processor`. The following do not
    change the binaries, so the key does not depend on them: the names of series and variant, the number of jobs, the
    limits, and the address of the engine. The binaries contain the key as the value of a CMake definition. The name of
    this definition is an input, but its value is not.
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
