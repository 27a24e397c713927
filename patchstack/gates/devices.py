"""Do a build's programs see the GPU of the machine that they run on?

A CUDA build of llama.cpp that cannot use the driver (one too old, a container without it) computes on the CPU, exits
with 0, and gives the same text more slowly. What its programs list as devices says so before the first gate.
"""

from __future__ import annotations

import re
from typing import Protocol

from patchstack.gates.protocol import Invocation, Observation

TOOLS = ("llama-completion", "llama-server", "llama-perplexity", "llama-batched-bench")
"""Programs of llama.cpp that take `--list-devices`, in the order they are asked."""
_HEAD = b"Available devices:"
_CUDA = re.compile(rb"^\s+CUDA\d+: ", re.MULTILINE)


class Looking(Protocol):
    """Runs a program of a build once, as its gates are run, and keeps nothing."""

    def programs(self) -> frozenset[str]: ...

    def look(self, invocation: Invocation) -> Observation: ...


def unseen_gpu(bench: Looking) -> str | None:
    """Why the programs would compute on the CPU. None where one of llama.cpp's lists a CUDA device, and also where none
    can say: it is not there, or knows no `--list-devices`.

    What they list is not kept: it can change with the machine, and nothing in an observation's key would.
    """
    program = next((name for name in TOOLS if name in bench.programs()), None)
    if program is None:
        return None
    seen = bench.look(Invocation(what="devices", program=program, args=("--list-devices",), seconds=120))
    _, head, listed = seen.stdout.partition(_HEAD)
    if not head or _CUDA.search(listed):
        return None
    others = ", ".join(line.strip() for line in listed.decode("utf-8", "replace").splitlines() if line.strip())
    return f"{program} sees no CUDA device (it lists {others or 'none'}): it would compute on the CPU"
