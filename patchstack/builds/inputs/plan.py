"""Plan a build: every option is resolved, with its origin, before any work starts."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from patchstack.builds.inputs.arch import Architecture, parse_arch
from patchstack.builds.inputs.variant import Setting, Variant, Variants
from patchstack.causes import AmbiguousName, BadValue, BuildPlanRefused, VariantUnusable
from patchstack.engine.protocol import About, PlatformUnsupported

T = TypeVar("T")
_GIB = 1 << 30
_MEMORY_A_JOB = {"cpu": 1 * _GIB, "cuda": 3 * _GIB}
_SECONDS = 4 * 3600.0
_DEFINITION = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_OURS = {
    "CMAKE_CUDA_ARCHITECTURES": "--arch",
    "CMAKE_C_COMPILER_LAUNCHER": "--ccache or --no-ccache",
    "CMAKE_CXX_COMPILER_LAUNCHER": "--ccache or --no-ccache",
    "CMAKE_CUDA_COMPILER_LAUNCHER": "--ccache or --no-ccache",
}
_WITHOUT_CCACHE = Setting(value=False, origin="--no-ccache")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The command-line options.

    An option that is None or empty gets its value from the variant, the workspace, the engine or a default.
    """

    variant: str | None = None
    arch: str | None = None
    platform: str | None = None
    image: str | None = None
    toolkit: str | None = None
    cmake: tuple[tuple[str, str], ...] = ()
    compile: tuple[tuple[str, str], ...] = ()
    targets: tuple[str, ...] = ()
    jobs: int | None = None
    memory: int | None = None
    cpus: float | None = None
    seconds: float | None = None
    ccache: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The resolved options of a build.

    `why` is the origin of the variant. `native` is true if the code is compiled for the processor of the machine that
    builds. The key then depends on this processor. `notes` are messages for the user, shown before the build starts.
    """

    variant: str
    why: str
    engine: About
    platform: Setting[str]
    arch: Architecture | None
    arch_setting: Setting[str] | None
    cmake: Mapping[str, Setting[str]]
    compile: Mapping[str, Setting[str]]
    targets: Setting[tuple[str, ...]]
    optional_targets: Setting[tuple[str, ...]] | None
    commit_variable: str | None
    image: Setting[str] | None
    recipe: str | None
    toolkit: Setting[str] | None
    jobs: Setting[int]
    memory: Setting[int | None]
    cpus: Setting[float | None]
    seconds: Setting[float]
    ccache: Setting[bool]
    native: bool
    notes: tuple[str, ...]

    @property
    def cuda(self) -> bool:
        return self.arch is not None

    @property
    def refuses_ccache(self) -> bool:
        """Whether the user forbade ccache. The build must then not contain any results of ccache."""
        return self.ccache == _WITHOUT_CCACHE

    def with_tools(self, tools: Collection[str]) -> Plan:
        """Return the plan for a toolchain with these tools.

        ccache is turned off if the toolchain lacks it and the user did not request it.
        """
        if self.ccache.origin == "default" and "ccache" not in tools:
            get = "add ccache to the image" if self.engine.isolated else "apt install ccache"
            note = f"ccache is not installed, so every build compiles all files, not only changed files ({get})"
            return replace(self, ccache=Setting(value=False, origin="not installed"), notes=(*self.notes, note))
        return self


def make_plan(request: Request, variants: Variants, about: About, default: Setting[str] | None = None) -> Plan:
    """Resolve a request. `default` is the variant for a request that names neither a variant nor an architecture.

    Raises `UsageError` for invalid options and for options that exclude each other. Raises `ConfigError` if the variant
    has no targets or cannot be resolved. Raises `PlatformUnsupported` if the engine does not support the requested
    platform.
    """
    variant, why = _variant(request, variants, default)
    if variant.targets is None:
        raise VariantUnusable(
            f"variant {variant.name} has no targets",
            hint="add targets to the variant, for example targets: [llama-server]",
        )
    cmake = _definitions(variant.cmake, request.cmake, "--define")
    compile_ = _definitions(variant.compile, request.compile, "--compile-define")
    architecture, setting = _architecture(variant)
    platform, notes = _platform(request, variant, about)
    native = _native(cmake, compile_, about, platform)
    memory = _chosen(request.memory, "--memory", variant.memory)
    cpus = _chosen(request.cpus, "--cpus", variant.cpus)
    if memory is None and about.isolated:
        memory = Setting(value=about.memory * 9 // 10, origin="nine tenths of the engine's")
    return Plan(
        variant=variant.name,
        why=why,
        engine=about,
        platform=platform,
        arch=architecture,
        arch_setting=setting,
        cmake=cmake,
        compile=compile_,
        targets=Setting(value=request.targets, origin="--target") if request.targets else variant.targets,
        optional_targets=None if request.targets else variant.optional_targets,
        commit_variable=variant.commit_variable.value if variant.commit_variable else None,
        image=_chosen(request.image, "--image", variant.image) if about.isolated else None,
        recipe=_recipe(request, variant),
        toolkit=_chosen(request.toolkit, "--toolkit", variant.toolkit),
        jobs=_jobs(request, variant, about, memory.value if memory else None, cpus.value if cpus else None),
        memory=Setting(value=memory.value, origin=memory.origin) if memory else _unlimited(about),
        cpus=Setting(value=cpus.value, origin=cpus.origin) if cpus else Setting(value=None, origin="all of them"),
        seconds=_chosen(request.seconds, "--time", variant.seconds) or Setting(value=_SECONDS, origin="default"),
        ccache=_ccache(request),
        native=native,
        notes=notes,
    )


def _ccache(request: Request) -> Setting[bool]:
    if request.ccache is None:
        return Setting(value=True, origin="default")
    return Setting(value=True, origin="--ccache") if request.ccache else _WITHOUT_CCACHE


def parse_definitions(texts: tuple[str, ...], option: str) -> tuple[tuple[str, str], ...]:
    """Parse `K=V` pairs. `K` alone means `K=ON`. Raises a `UsageError` that lists every invalid pair."""
    pairs, problems = [], []
    for text in texts:
        name, separator, value = text.removeprefix("-D").partition("=")
        if not _DEFINITION.match(name):
            problems.append(f"{option} {text}: {name!r} is not a valid name")
        elif "\n" in value or "\0" in value:
            problems.append(f"{option} {name}: the value contains a line break or a NUL byte")
        pairs.append((name, value if separator else "ON"))
    if problems:
        raise BadValue(f"{option} takes NAME=VALUE", problems=problems)
    return tuple(pairs)


def _variant(request: Request, variants: Variants, default: Setting[str] | None) -> tuple[Variant, str]:
    if request.variant is not None:
        variant = variants.get(request.variant)
        if request.arch is not None:
            asked = parse_arch(request.arch)
            have = parse_arch(variant.arch.value) if variant.arch else None
            if have != asked:
                what = f"is for {have.name}" if have else "has no GPU code"
                raise BuildPlanRefused(
                    f"variant {variant.name} {what}, but --arch {request.arch} requests {asked.name}"
                )
        return variant, "--variant"
    if request.arch is not None:
        return variants.for_arch(parse_arch(request.arch)), f"--arch {request.arch}"
    if default is not None:
        return variants.get(default.value), default.origin
    raise AmbiguousName(
        "no variant given", hint=f"use --arch 121, or --variant with one of {', '.join(variants.names())}"
    )


def _architecture(variant: Variant) -> tuple[Architecture | None, Setting[str] | None]:
    if variant.arch is None:
        return None, None
    known = parse_arch(variant.arch.value)
    if known.cmake != variant.arch.value:
        known = replace(known, cmake=variant.arch.value)
    return known, variant.arch


def _definitions(
    written: Mapping[str, Setting[str]], asked: tuple[tuple[str, str], ...], option: str
) -> dict[str, Setting[str]]:
    settings = dict(written) | {name: Setting(value=value, origin=option) for name, value in asked}
    wrong = [f"{name} ({settings[name].origin}): use {better}" for name, better in _OURS.items() if name in settings]
    if wrong and option == "--define":
        raise BuildPlanRefused("these definitions cannot be given, because patchstack sets them", problems=wrong)
    return settings


def _platform(request: Request, variant: Variant, about: About) -> tuple[Setting[str], tuple[str, ...]]:
    if request.platform is not None:
        if request.platform != about.platform:
            raise PlatformUnsupported(
                f"{about.spec} runs {about.platform}, not {request.platform}",
                hint=_elsewhere(request.platform),
            )
        return Setting(value=request.platform, origin="--platform"), ()
    home = variant.platform.value if variant.platform else about.platform
    if home == about.platform:
        return Setting(value=home, origin=variant.platform.origin if variant.platform else "the engine's"), ()
    gpu = f" ({parse_arch(variant.arch.value).gpus})" if variant.arch else ""
    note = (
        f"{variant.name}{gpu} is for {home}; this engine builds for {about.platform}. This proves that the code"
        f" compiles. The binaries will not run on the target machine. T{_elsewhere(home)[1:]}"
    )
    return Setting(value=about.platform, origin="the engine's"), (note,)


def _elsewhere(platform: str) -> str:
    machine = "a DGX Spark or another arm64 machine" if platform == "linux/arm64" else "an x86-64 machine"
    return f"to build for {platform}, use an engine on {machine}: DOCKER_HOST=ssh://user@host, or --engine"


def _native(
    cmake: Mapping[str, Setting[str]], compile_: Mapping[str, Setting[str]], about: About, platform: Setting[str]
) -> bool:
    """Return whether an option requests code for the building machine.

    Raises `UsageError` if the engine is on a different machine or has a different platform.
    """
    asked = [
        f"{name}={setting.value} ({setting.origin})"
        for name, setting in (*cmake.items(), *compile_.items())
        if re.search(r"\bnative\b", setting.value)
        or (name == "GGML_NATIVE" and setting.value.upper() in ("ON", "1", "TRUE", "YES", "Y"))
    ]
    if asked and not (about.local and about.platform == platform.value):
        raise BuildPlanRefused(
            "cannot build native code: the engine is on a different machine or has a different platform",
            problems=asked,
            hint="replace native by the name of the architecture, or run patchstack on that machine with --engine host",
        )
    return bool(asked)


def _jobs(request: Request, variant: Variant, about: About, memory: int | None, cpus: float | None) -> Setting[int]:
    chosen = _chosen(request.jobs, "--jobs", variant.jobs)
    if chosen is not None:
        return chosen
    have = max(1, int(min(cpus or about.cpus, about.cpus)))
    fit = max(1, (memory or about.memory) // _MEMORY_A_JOB["cuda" if variant.arch else "cpu"])
    if fit < have:
        return Setting(value=fit, origin="as many as fit into memory")
    return Setting(value=have, origin="the engine's processors")


def _unlimited(about: About) -> Setting[int | None]:
    return Setting(value=None, origin="not limited" if about.isolated else "not limited on the host")


def _recipe(request: Request, variant: Variant) -> str | None:
    """Return the recipe of the image.

    Return None if the image and the recipe come from different places, because the image was then not built from the
    recipe.
    """
    recipe, image = variant.recipe, variant.image
    if recipe is None or image is None or request.image is not None:
        return None
    return recipe.value if recipe.origin == image.origin else None


def _chosen(asked: T | None, option: str, written: Setting[T] | None) -> Setting[T] | None:
    return Setting(value=asked, origin=option) if asked is not None else written
