"""The build key: one digest of everything that can change the binaries."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from patchstack.builds.inputs.plan import Plan
from patchstack.builds.inputs.source import Source
from patchstack.canonical import canonical

RECIPE_VERSION = 1
"""The version of the commands in `patchstack.builds.run.recipe`, so that binaries of older commands are not reused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """The compilers. `digest` (sha256:…) covers all of them: that of a container image, with a mounted toolkit, or of
    the host's programs. `versions` are those of the tools; `cuda` is the toolkit's version if there is one."""

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
    """A build key: 64 hexadecimal digits, and the inputs. The key is the SHA-256 of their canonical JSON."""

    hex: str
    inputs: Mapping[str, Any]

    @property
    def short(self) -> str:
        return self.hex[:12]


def build_key(source: Source, plan: Plan, toolchain: Toolchain, processor: str | None = None) -> Key:
    """Return the key of a build.

    It includes the tree, the definitions, the architecture, the targets, the platform and the toolchain, and the
    `processor` for native code. It does not include the names of series and variant, the number of jobs, limits, and
    the address of the engine, because they change no byte. The key is embedded in the binaries, so it does not cover
    itself.
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
