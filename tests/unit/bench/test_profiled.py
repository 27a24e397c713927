from __future__ import annotations

import pytest

from patchstack.bench.profiled import printed_by_profiler, profiler_of


@pytest.mark.parametrize(
    ("env", "found"),
    [
        ({}, None),
        ({"LLAMA_KV_PAGED": "1"}, None),
        ({"LD_PRELOAD": "/usr/lib/libjemalloc.so"}, None),
        ({"LD_PRELOAD": "/opt/nsys/libToolsInjection64.so"}, "LD_PRELOAD"),
        ({"CUDA_INJECTION64_PATH": "x"}, "CUDA_INJECTION64_PATH"),
        ({"A": "1", "NSYS_TARGET": "x"}, "NSYS_TARGET"),
    ],
)
def test_a_variable_that_loads_a_profiler_is_found(env: dict[str, str], found: str | None) -> None:
    assert profiler_of(env) == found


@pytest.mark.parametrize(
    ("output", "found"),
    [
        (b"rate: 1.0\n", None),
        (b"the text says Processing events... here\n", None),
        (b"rate: 1.0\nGenerating '/tmp/nsys-report-1a.qdstrm'\n", "Generating '/tmp/nsys-report-1a.qdstrm'"),
        (b"==PROF== Connected to process 12\nrate: 1\n", "==PROF== Connected to process 12"),
        (b"[ perf record: Woken up 1 times to write data ]\n", "[ perf record: Woken up 1 times to write data ]"),
    ],
)
def test_what_a_profiler_prints_is_found(output: bytes, found: str | None) -> None:
    assert printed_by_profiler(output) == found
