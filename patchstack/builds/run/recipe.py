"""The commands of a build: configure, build, and collect the results. They are the same on every engine."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from patchstack.builds.inputs.plan import Plan

# Compilers replace the path of the tree with this name. So assertions and debug information contain the same paths in
# every build, and no path of the build machine.
MAPPED = "."
_SAFE = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
_SPECIAL = re.compile(r'(["\\$`])')
_ESCAPED = r"\\\1"
EPOCH = 315532800
"""The date of all files and of `__DATE__`, in seconds since 1970.

It is 1980-01-01, the first day that every format supports.
"""

_PREPARE = """
set -eu
missing=
for tool in cmake ninja "$@"; do command -v "$tool" >/dev/null 2>&1 || missing="$missing $tool"; done
if [ -n "$missing" ]; then echo "patchstack: missing tools:$missing"; exit 96; fi
"""

# ninja builds the targets, and the optional targets that this source tree defines. Then the files in bin/ are
# collected. The object files of FP4 kernels are collected too, because a proof needs them. If bin/ is empty, the script
# lists programs in other directories and exits with 97.
_BUILD = """
set -eu
build=$1 out=$2 optional=$3
shift 3
if [ -n "$optional" ]; then
    ninja -C "$build" -t targets all >"$build/targets.txt"
    for name in $optional; do
        if grep -qxF "$name: phony" "$build/targets.txt"; then
            set -- "$@" "$name"
        else
            echo "patchstack: optional target $name does not exist in this source tree"
        fi
    done
fi
cmake --build "$build" "$@"
rm -rf "$out"
mkdir -p "$out/bin" "$out/objects"
if [ -z "$(ls -A "$build/bin" 2>/dev/null)" ]; then
    echo "patchstack: nothing in bin:"
    cd "$build"
    find . -type f \\( -perm -u+x -o -name '*.so' -o -name '*.so.*' \\) ! -path '*CMakeFiles*'
    exit 97
fi
[ ! -d "$build/bin" ] || find "$build/bin" -maxdepth 1 \\( -type f -o -type l \\) -exec cp -P {} "$out/bin/" \\;
find "$build" -path '*fp4*' -name '*.cu.o' -exec cp {} "$out/objects/" \\;
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The paths of a build, as its jobs see them.

    These are the source tree, CMake's directory, the output directory, the ccache directory, and the CUDA toolkit.
    `toolkit` is None if the plan names no toolkit.
    """

    source: str
    build: str
    out: str
    ccache: str
    toolkit: str | None = None


def configure_command(plan: Plan, layout: Layout, key: str) -> tuple[str, ...]:
    """Return the command that checks the tools and runs CMake.

    If tools are missing, the command names them and exits with 96.
    """
    tools = ["ccache"] if plan.ccache.value else []
    cmake = ["cmake", "-S", layout.source, "-B", layout.build, "-G", "Ninja"]
    cmake += [f"-D{name}={value}" for name, value in _cache(plan, layout, key).items()]
    return ("sh", "-c", _PREPARE + "exec " + shlex.join(cmake), "patchstack", *tools)


def build_command(plan: Plan, layout: Layout) -> tuple[str, ...]:
    """Return the command that builds the targets and the optional targets that exist, and collects the results."""
    optional = " ".join(plan.optional_targets.value) if plan.optional_targets is not None else ""
    arguments = [layout.build, layout.out, optional, "--parallel", str(plan.jobs.value)]
    arguments += ["--target", *plan.targets.value]
    return ("sh", "-c", _BUILD, "patchstack", *arguments)


def environment(plan: Plan, layout: Layout) -> dict[str, str]:
    """Return the environment of the configure job and the build job."""
    found = {"LC_ALL": "C", "SOURCE_DATE_EPOCH": str(EPOCH), "NINJA_STATUS": "[%f/%t] ", "CLICOLOR": "0"}
    if plan.ccache.value:
        found |= {
            "CCACHE_DIR": layout.ccache,
            "CCACHE_COMPILERCHECK": "content",
            "CCACHE_NOHASHDIR": "true",
            "CCACHE_MAXSIZE": "20G",
            "CCACHE_STATSLOG": f"{layout.out}.ccache",
        }
    if layout.toolkit is not None:
        found["CUDACXX"] = f"{layout.toolkit}/bin/nvcc"
    return found


def _cache(plan: Plan, layout: Layout, key: str) -> dict[str, str]:
    """Return the entries of CMake's cache. Entries that the proofs require override the entries of the variant."""
    defined = " ".join(f"-D{name}={setting.value}" for name, setting in sorted(plan.compile.items()))
    maps = [f"-ffile-prefix-map={path}={MAPPED}" for path in (layout.source, layout.build)]
    # Paths may contain spaces. Quote each flag once for the shell that runs the compiler, and again for nvcc's shell.
    host = " ".join(map(_quoted, maps))
    # Without -objtemp, nvcc writes names of temporary files, which contain a process id, into the objects.
    device = " ".join(("-objtemp", *(f"-Xcompiler={_quoted(_quoted(flag))}" for flag in maps)))
    entries = {
        "CMAKE_BUILD_TYPE": "Release",
        # Search for libraries next to the program. CMAKE_BUILD_RPATH_USE_ORIGIN is not used, because CMake pads it to
        # `$ORIGIN:`, and the empty entry means the working directory of the program.
        "CMAKE_BUILD_WITH_INSTALL_RPATH": "ON",
        "CMAKE_INSTALL_RPATH": "$ORIGIN",
        **{name: setting.value for name, setting in plan.cmake.items()},
    }
    for language, flags in (("C", host), ("CXX", host), ("CUDA", device)):
        if language == "CUDA" and not plan.cuda:
            continue
        own = entries.get(f"CMAKE_{language}_FLAGS", "")
        entries[f"CMAKE_{language}_FLAGS"] = " ".join(filter(None, (own, flags, defined)))
        if plan.ccache.value:
            entries[f"CMAKE_{language}_COMPILER_LAUNCHER"] = "ccache"
    if plan.arch is not None:
        entries["CMAKE_CUDA_ARCHITECTURES"] = plan.arch.cmake
    if layout.toolkit is not None:
        entries["CUDAToolkit_ROOT"] = layout.toolkit
    if plan.commit_variable is not None:
        entries[plan.commit_variable] = key
    return entries


def _quoted(flag: str) -> str:
    """Return a flag as one shell word.

    If necessary, the flag gets double quotes, because CMake strips single quotes from values of its cache.
    """
    return flag if _SAFE.fullmatch(flag) else f'"{_SPECIAL.sub(_ESCAPED, flag)}"'


def ccache_rate(log: bytes) -> Mapping[str, int]:
    """Count the cache hits and misses of a build in ccache's statistics log.

    The log names each compiled file, then its results, one per line.
    """
    hits = misses = 0
    for line in log.decode("utf-8", "replace").splitlines():
        word = line.strip()
        if word in ("direct_cache_hit", "preprocessed_cache_hit"):
            hits += 1
        elif word == "cache_miss":
            misses += 1
    return {"hits": hits, "misses": misses}
