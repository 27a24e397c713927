"""Detect runs under a profiler. Their times cannot be used, because they include the profiler's own work."""

from __future__ import annotations

import re
from collections.abc import Mapping

VARIABLES = ("CUDA_INJECTION64_PATH", "CUDA_PROFILE", "COMPUTE_PROFILE", "NVTX_INJECTION64_PATH", "ROCP_TOOL_LIB")
"""The environment variables that load a profiler into a process."""
PROFILERS = frozenset({"nsys", "ncu", "nvprof", "perf", "valgrind", "rocprof", "rocprofv3", "vtune"})
"""The names of programs that profile other programs."""
_LIBRARIES = re.compile(r"nsys|nsight|cupti|ncu|vtune|gprof|valgrind|rocprof", re.IGNORECASE)
_PRINTED = re.compile(
    rb"^(?:==PROF== |==\d+== (?:NVPROF|Profiling|Callgrind|Cachegrind|Memcheck)|Generating '.*\.qdstrm'"
    rb"|Processing events\.\.\.$|\[ perf record: )",
    re.MULTILINE,
)


def profiler_of(env: Mapping[str, str]) -> str | None:
    """Return the first environment variable that loads a profiler. Return None if no variable does."""
    for name, value in sorted(env.items()):
        if name in VARIABLES or name.startswith("NSYS_") or (name == "LD_PRELOAD" and _LIBRARIES.search(value)):
            return name
    return None


def printed_by_profiler(output: bytes) -> str | None:
    """Return the first line that a profiler printed in the output of a run, cut to 80 bytes. Return None if there is no
    such line."""
    match = _PRINTED.search(output)
    if match is None:
        return None
    line = output[match.start() :].split(b"\n", 1)[0]
    return line[:80].decode("utf-8", "replace")
