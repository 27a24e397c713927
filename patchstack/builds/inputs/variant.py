"""Resolve variants, with the origin of each setting.

A workspace can add variants, and override settings of patchstack's variants.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import patchstack
from patchstack.builds.inputs.arch import Architecture, parse_arch
from patchstack.causes import AmbiguousName, UnknownName, VariantUnusable
from patchstack.workspace import SeriesConfig, VariantConfig, read_variants_file

T = TypeVar("T")
_SCALARS = (
    *("arch", "platform", "image", "recipe", "toolkit", "targets", "optional_targets", "commit_variable"),
    *("memory", "cpus", "jobs", "seconds"),
)
_DERIVED_FROM = "cuda"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting(Generic[T]):
    """A value and its origin in words."""

    value: T
    origin: str


def series_variant(config: SeriesConfig) -> Setting[str] | None:
    """Return the variant that the workspace names for a series. Return None if it names no variant."""
    if config.variant is None:
        return None
    return Setting(value=config.variant, origin=f"{config.name} in patchstack.yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A variant, with the settings of all variants that it extends. The fields are those of `VariantConfig`."""

    name: str
    arch: Setting[str] | None
    platform: Setting[str] | None
    image: Setting[str] | None
    recipe: Setting[str] | None
    toolkit: Setting[str] | None
    targets: Setting[tuple[str, ...]] | None
    optional_targets: Setting[tuple[str, ...]] | None
    commit_variable: Setting[str] | None
    memory: Setting[int] | None
    cpus: Setting[float] | None
    jobs: Setting[int] | None
    seconds: Setting[float] | None
    cmake: Mapping[str, Setting[str]]
    compile: Mapping[str, Setting[str]]


class Variants:
    """All variants of patchstack and of a workspace."""

    def __init__(self, shipped: Iterable[VariantConfig], own: Iterable[VariantConfig]) -> None:
        self._layers: dict[str, list[VariantConfig]] = {}
        for config in (*shipped, *own):
            self._layers.setdefault(config.name, []).append(config)

    def names(self) -> tuple[str, ...]:
        """Return the names of the variants that can be built, in the order of their definitions."""
        return tuple(name for name, layers in self._layers.items() if not layers[-1].abstract)

    def get(self, name: str) -> Variant:
        """Return the variant with this name.

        Raises `UsageError` if no variant with this name can be built. Raises `ConfigError` if the variant extends
        itself or a missing variant.
        """
        if name not in self._layers or self._layers[name][-1].abstract:
            near = difflib.get_close_matches(name, self.names(), 1)
            hint = f"perhaps you meant {near[0]}; " if near else ""
            raise UnknownName(f"there is no variant {name}", hint=f"{hint}known variants: {', '.join(self.names())}")
        return self._flatten(name, self._lineage(name))

    def for_arch(self, architecture: Architecture) -> Variant:
        """Return the variant for an architecture. If none exists, derive a variant from `cuda`.

        If several exist, the one with the default name (`cuda-sm121`) is returned. Raises `UsageError` if none of them
        has this name.
        """
        found = []
        for name in self.names():
            arch = self.get(name).arch
            if arch is not None and parse_arch(arch.value).number == architecture.number:
                found.append(name)
        plain = f"cuda-sm{architecture.number}"
        if plain in found or len(found) == 1:
            return self.get(plain if plain in found else found[0])
        if found:
            raise AmbiguousName(
                f"{architecture.name} has several variants", hint=f"use --variant with one of {', '.join(found)}"
            )
        made = VariantConfig(
            name=plain, origin="--arch, on top of cuda", extends=_DERIVED_FROM, arch=architecture.cmake
        )
        return self._flatten(plain, [*self._lineage(_DERIVED_FROM), made])

    def _lineage(self, name: str) -> list[VariantConfig]:
        """Return the configurations of a variant and of all variants that it extends. The base comes first."""
        chain: list[str] = []
        at: str | None = name
        while at is not None:
            if at in chain:
                raise VariantUnusable(f"variant {name} extends itself", problems=[" extends ".join([*chain, at])])
            layers = self._layers.get(at)
            if layers is None:
                origin = self._layers[chain[-1]][-1].origin
                raise VariantUnusable(
                    f"{origin} extends {at}, which is not a variant", hint=f"known variants: {self._all()}"
                )
            chain.append(at)
            at = next((layer.extends for layer in reversed(layers) if layer.extends is not None), None)
        return [layer for one in reversed(chain) for layer in self._layers[one]]

    def _flatten(self, name: str, lineage: Sequence[VariantConfig]) -> Variant:
        scalars: dict[str, Setting[object] | None] = dict.fromkeys(_SCALARS)
        cmake: dict[str, Setting[str]] = {}
        compile_: dict[str, Setting[str]] = {}
        for config in lineage:
            for field in _SCALARS:
                if (value := getattr(config, field)) is not None:
                    scalars[field] = Setting(value=value, origin=config.origin)
            cmake.update({key: Setting(value=value, origin=config.origin) for key, value in config.cmake})
            compile_.update({key: Setting(value=value, origin=config.origin) for key, value in config.compile})
        return Variant(name=name, cmake=cmake, compile=compile_, **scalars)  # type: ignore[arg-type]

    def _all(self) -> str:
        return ", ".join(self._layers)


def builders_directory() -> Path:
    """Return the directory of the recipes and of `variants.yaml`.

    The directory is in the installed package, or next to the package in a checkout.
    """
    package = Path(patchstack.__file__).parent
    return next(
        (place for place in (package / "builders", package.parent / "builders") if (place / "variants.yaml").is_file()),
        package / "builders",
    )


def load_variants(own: Iterable[VariantConfig] = ()) -> Variants:
    """Return the variants of patchstack and of a workspace. Settings of the workspace have priority."""
    return Variants(_shipped(builders_directory() / "variants.yaml"), own)


@functools.cache
def _shipped(path: Path) -> tuple[VariantConfig, ...]:
    return read_variants_file(path)
