"""Variants as they are written down, in a workspace or in the file that patchstack ships."""

from __future__ import annotations

import re
from pathlib import Path

from patchstack.errors import ConfigError
from patchstack.workspace.mapping import Mapping, read_yaml
from patchstack.workspace.model import VariantConfig

PLATFORMS = ("linux/amd64", "linux/arm64")
_ARCH = re.compile(r"[0-9]{2,3}[af]?(-real|-virtual)?\Z")
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(|[KMGT]i?B?)\Z", re.IGNORECASE)
_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(s|m|min|h)\Z")


def read_variants_file(path: Path) -> tuple[VariantConfig, ...]:
    """The variants of a file of their own. Raises `ConfigError` with every complaint."""
    from ruamel.yaml.comments import CommentedMap

    document = read_yaml(path)
    problems: list[str] = []
    if not isinstance(document, CommentedMap):
        raise ConfigError(f"{path}:1: not a mapping", hint="it starts with `variants:`")
    top = Mapping(document, path, "", problems)
    variants = read_variants(top)
    top.finish()
    if problems:
        raise ConfigError(f"{path.name} cannot be used", problems=problems)
    return variants


def read_variants(top: Mapping) -> tuple[VariantConfig, ...]:
    """The `variants:` of a document; complaints go to the mapping."""
    node = top.mapping("variants")
    return tuple(_read_variant(name, one) for name, one in node.children()) if node is not None else ()


def parse_size(text: str) -> int | None:
    """Bytes of `16GiB`, `16G`, `512M` or a plain number, in powers of 1024; None for what is none."""
    match = _SIZE.match(text.strip())
    if match is None:
        return None
    power = " KMGT".index(match.group(2)[:1].upper() or " ")
    return int(float(match.group(1)) * 1024**power)


def parse_time(text: str) -> float | None:
    """Seconds of `90s`, `30m` or `4h`; None for what is none."""
    match = _TIME.match(text.strip())
    return None if match is None else float(match.group(1)) * {"s": 1, "m": 60, "min": 60, "h": 3600}[match.group(2)]


def _read_variant(name: str, node: Mapping) -> VariantConfig:
    platform, arch = node.text("platform"), node.text("arch")
    if platform is not None and platform not in PLATFORMS:
        node.complain("platform", f"{platform!r} is none of {', '.join(PLATFORMS)}")
    if arch is not None and not _ARCH.match(arch):
        node.complain("arch", f"{arch!r} is no CUDA architecture: 121a-real, say, in quotes where it is a number")
    limits = node.mapping("limits")
    memory, seconds = (limits.text("memory"), limits.text("time")) if limits else (None, None)
    if limits is not None and memory is not None and parse_size(memory) is None:
        limits.complain("memory", f"{memory!r} is no size: 16GiB, say")
    if limits is not None and seconds is not None and parse_time(seconds) is None:
        limits.complain("time", f"{seconds!r} is no time: 90s, 30m or 4h")
    cpus = limits.integer("cpus", default=0) if limits else 0
    jobs = node.integer("jobs", default=0)
    config = VariantConfig(
        name=name,
        origin=f"{node.path.name}: {name}",
        extends=node.text("extends"),
        abstract=node.boolean("abstract"),
        arch=arch,
        platform=platform,
        image=node.text("image"),
        recipe=node.text("recipe"),
        toolkit=node.text("toolkit"),
        cmake=node.settings("cmake"),
        compile=node.settings("compile"),
        targets=node.texts("targets"),
        commit_variable=node.text("commit_variable"),
        memory=parse_size(memory) if memory else None,
        cpus=cpus or None,
        jobs=jobs or None,
        seconds=parse_time(seconds) if seconds else None,
    )
    for mapping in (limits, node):
        if mapping is not None:
            mapping.finish()
    return config
