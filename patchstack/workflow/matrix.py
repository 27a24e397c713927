"""Make a matrix of CI jobs from variants and suites."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable, Mapping, Sequence

from patchstack.builds.inputs.variant import Variants, load_variants
from patchstack.causes import BadValue, CiInputRefused, UnknownName
from patchstack.gates.suite import NO_SUITES, read_suites
from patchstack.workspace import Workspace

# GitHub's free runners for public repositories, by platform.
RUNNERS = {"linux/amd64": "ubuntu-24.04", "linux/arm64": "ubuntu-24.04-arm"}

# GitHub's limit of jobs in one matrix.
LARGEST = 256
_DEFAULT = "cpu"

# The user writes this name to select no variant, because an empty input selects the default variants.
NOTHING = "none"


def runners_of(given: Iterable[str]) -> dict[str, str]:
    """Return the runner label of each platform.

    The defaults are GitHub's runners. Texts of the form `OS/ARCH=LABEL` override them. Raises `UsageError` for any
    other text.
    """
    runners = dict(RUNNERS)
    for text in given:
        platform, equals, label = text.partition("=")
        if not equals or not label or platform not in RUNNERS:
            raise BadValue(f"--runner {text} is not OS/ARCH=LABEL", hint=f"OS/ARCH must be {' or '.join(RUNNERS)}")
        runners[platform] = label
    return runners


def workspace_matrix(
    workspace: Workspace | None, *, variants: Sequence[str], suites: Sequence[str], runners: Mapping[str, str]
) -> list[dict[str, str]]:
    """Return the matrix of a workspace's variants and suites.

    Without a workspace, the matrix contains the shipped variants. Suites are read only if they are requested. Raises
    the errors of `matrix` and `read_suites`.
    """
    if workspace is None:
        return matrix(load_variants(()), (), (), variants=variants, suites=suites, runners=runners)
    configured = [one.variant for one in workspace.series if one.variant is not None]
    known = [one.name for one in read_suites(workspace)] if suites else []
    own = load_variants(workspace.variants)
    return matrix(own, configured, known, variants=variants, suites=suites, runners=runners)


def matrix(
    known: Variants,
    configured: Sequence[str],
    known_suites: Sequence[str],
    *,
    variants: Sequence[str] = (),
    suites: Sequence[str] = (),
    runners: Mapping[str, str],
) -> list[dict[str, str]]:
    """Return one job for each combination of variant and suite, without duplicates.

    A job contains `variant`, `arch` (empty without CUDA), `platform`, `runner`, `suite` (empty if none was requested),
    and `args`. `args` are the options of `patchstack build` on a runner without a GPU. CUDA programs cannot start
    there, so `args` allow the proof `runs` to be INVALID.

    A variant is given as `NAME`, or as `NAME@OS/ARCH` for a different platform. By default, the variants are `cpu` and
    the `configured` variants of the series. The suite `all` means every known suite.

    Raises `UsageError` for names that do not exist, and for too many jobs.
    """
    wanted = [name for name in dict.fromkeys(variants or (_DEFAULT, *configured)) if name != NOTHING]
    chosen = list(dict.fromkeys(known_suites if "all" in suites else suites)) if suites else [""]
    if "all" in suites and not known_suites:
        raise UnknownName("the workspace has no suites", hint=NO_SUITES)
    for suite in chosen:
        if suite and suite not in known_suites:
            near = difflib.get_close_matches(suite, known_suites, 1)
            hint = f"perhaps you meant {near[0]}" if near else f"the suites are {', '.join(known_suites) or 'none'}"
            raise UnknownName(f"there is no suite {suite}", hint=hint)
    jobs = []
    for name in wanted:
        plain, at, platform = name.partition("@")
        variant = known.get(plain)
        own = variant.platform.value if variant.platform is not None else next(iter(runners))
        platform = platform if at else own
        if platform not in runners:
            raise CiInputRefused(f"{name}: no runner for {platform!r}", hint=f"platforms: {', '.join(runners)}")
        arch = variant.arch.value if variant.arch is not None else ""
        for suite in chosen:
            row = {"variant": plain, "arch": arch, "platform": platform, "runner": runners[platform], "suite": suite}
            words = ["--variant", plain, "--platform", platform, *(["--unproven", "runs"] if arch else [])]
            row["args"] = shlex.join(words)  # variant names may contain any characters, so quote them
            if row not in jobs:
                jobs.append(row)
    if len(jobs) > LARGEST:
        raise CiInputRefused(
            f"the matrix has {len(jobs)} jobs, the limit is {LARGEST}", hint="select fewer variants with --variant"
        )
    return jobs
