"""Prepare what `benchmarks.build_speed` builds: the demo's series, a different one, or a tree, in a separate
workspace."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from benchmarks.generate import git_environment
from patchstack.builds.inputs.plan import Request, parse_definitions
from patchstack.builds.inputs.source import Source, directory_source, series_source
from patchstack.builds.inputs.variant import Variant, load_variants
from patchstack.git.remote import Cache
from patchstack.workspace import located, read_workspace, read_yaml

_ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A build to measure. `base` is the variant from which the workspace's variants `measured-0`, `measured-1`, …
    differ only for ccache; `options` are those of every build. `whole` are the options that name the tree, `previous`
    those that name it without its last patch (None if there is no such tree). `request` is the request for both,
    without a variant."""

    workspace: Path
    cache: Path
    base: str
    engine: str
    series: str | None
    options: tuple[str, ...]
    request: Request
    whole: tuple[str, ...]
    previous: tuple[str, ...] | None

    def source(self) -> Source:
        """Return the source of the whole tree."""
        if self.series is None:
            return directory_source(Path(self.whole[-1]))
        config = read_workspace(self.workspace).select([self.series])[0]
        return series_source(config, Cache(lambda: self.cache, offline=False))


def make_case(given: Namespace, scratch: Path) -> Case:
    """Return the case for a command line. All its files are written below `scratch`."""
    workspace, base, series = write_workspace(given, scratch)
    options = ["--workspace", str(workspace), "--engine", given.engine]
    for name in ("image", "toolkit", "jobs"):
        value = getattr(given, name)
        options += [f"--{name}", str(value)] if value else []
    options += [part for name in ("define", "target") for one in getattr(given, name) for part in (f"--{name}", one)]
    whole, previous = _of_series(workspace, series) if series else _of_tree(given.source, given.touch, scratch)
    return Case(
        workspace=workspace,
        cache=scratch / "cache",
        base=base,
        engine=given.engine,
        series=series,
        options=tuple(options),
        request=Request(
            image=given.image,
            toolkit=given.toolkit,
            jobs=given.jobs,
            targets=tuple(given.target),
            cmake=parse_definitions(tuple(given.define), "--define"),
        ),
        whole=whole,
        previous=previous,
    )


def write_workspace(given: Namespace, scratch: Path) -> tuple[Path, str, str | None]:
    """Write a workspace: the given one (the demo's, or an empty one) with absolute paths, and a variant for each build
    that ccache must not know yet. Return its file, the base variant, and the series."""
    origin = given.workspace
    if origin is None and given.source is None:
        command = [sys.executable, "-m", "patchstack", "demo", "--no-build", str(scratch / "tour")]
        subprocess.run(command, env=patchstack_environment(scratch), check=True, stdout=subprocess.DEVNULL)
        origin = scratch / "tour" / "patchstack.yaml"
    if origin is None:
        origin = scratch / "empty.yaml"
        nothing = {"patches": ".", "upstream": ".", "pin": "0" * 40}
        origin.write_text(json.dumps({"series": {"nothing": nothing}}))
    document = read_yaml(origin, comments=False)
    for one in document["series"].values():
        places = {key: one[key] for key in ("patches", "upstream", "fork") if key in one}
        one |= {key: located(place, origin.resolve().parent) for key, place in places.items()}
    series = None if given.source else given.series or next(iter(document["series"]))
    base = given.variant or (document["series"][series].get("variant") if series else None)
    if base is None:
        raise SystemExit("which variant? --variant NAME")
    like = load_variants(read_workspace(origin).variants).get(base)
    token = uuid4().hex[:12]
    document.setdefault("variants", {}).update(
        {f"measured-{number}": new_to_ccache(like, f"{token}-{number}") for number in range(given.pairs + 2)}
    )
    path = scratch / "patchstack.yaml"
    path.write_text(json.dumps(document))
    return path, base, series


def new_to_ccache(like: Variant, seed: str) -> dict[str, object]:
    """Return a variant with a different compiler option that ccache hashes but that does not change the code."""
    languages = {"C": "", "CXX": "", **({"CUDA": "-Xcompiler="} if like.arch else {})}
    flags = {f"CMAKE_{language}_FLAGS": f"{pass_on}-frandom-seed={seed}" for language, pass_on in languages.items()}
    own = {name: f"{like.cmake[name].value} {flag}" if name in like.cmake else flag for name, flag in flags.items()}
    return {"extends": like.name, "cmake": own}


def patchstack_environment(scratch: Path) -> dict[str, str]:
    """Return the environment of an installed patchstack: byte-compiled, and with a separate cache."""
    environment = {name: value for name, value in git_environment().items() if not name.startswith("PYTHON")}
    own = {"PATCHSTACK_CACHE": str(scratch / "cache"), "PYTHONPYCACHEPREFIX": str(scratch / "compiled")}
    return environment | own | {"PYTHONPATH": str(_ROOT)}


def _of_series(workspace: Path, series: str) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    config = read_workspace(workspace).select([series])[0]
    numbers = sorted(int(path.name.partition("-")[0]) for path in config.patches.glob("[0-9]*-*"))
    return (series,), (series, "--at", str(numbers[-2])) if len(numbers) > 1 else None


def _of_tree(directory: Path, touch: str | None, scratch: Path) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Make copies of a tree, with and without a change to one of its files, and return the options for each."""
    whole, before = scratch / "whole", scratch / "before"
    for entry in directory_source(directory).entries():
        path = whole / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if entry.link is not None:
            path.symlink_to(entry.link)
        else:
            path.write_bytes(entry.data or b"")
            path.chmod(0o755 if entry.executable else 0o644)
    if touch is None:
        return ("--source", str(whole)), None
    shutil.copytree(whole, before, symlinks=True)
    with (whole / touch).open("a") as file:
        file.write("\n// one more patch\n")
    return ("--source", str(whole)), ("--source", str(before))
