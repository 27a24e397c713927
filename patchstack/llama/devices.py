"""Do a build's programs see the GPU of the machine that they run on?

A CUDA build of llama.cpp that cannot use the driver (one too old, a container without it) computes on the CPU, exits
with 0, and gives the same text more slowly. What its programs list as devices says so before the first gate.
"""

from __future__ import annotations

import re

from patchstack.observe.exclusive import NotFit
from patchstack.observe.protocol import Invocation
from patchstack.observe.runner import Runner

TOOLS = ("llama-completion", "llama-server", "llama-perplexity", "llama-batched-bench")
"""Programs of llama.cpp that take `--list-devices`, in the order they are asked."""
_HEAD = b"Available devices:"
_CUDA = re.compile(rb"^\s+CUDA\d+: ", re.MULTILINE)


def require_gpu(runner: Runner) -> None:
    """Raise `NotFit` where the programs would compute on the CPU: one of llama.cpp's lists no CUDA device.
    Where none of them is there, or it knows no `--list-devices`, nothing can be said.

    What they list is not kept: it can change with the machine, and nothing in an observation's key would.
    """
    program = next((name for name in TOOLS if name in runner.programs()), None)
    if program is None:
        return
    seen = runner.look(Invocation(what="devices", program=program, args=("--list-devices",), seconds=120))
    _, head, listed = seen.stdout.partition(_HEAD)
    if not head or _CUDA.search(listed):
        return
    others = ", ".join(line.strip() for line in listed.decode("utf-8", "replace").splitlines() if line.strip())
    raise NotFit(
        f"{program} sees no CUDA device (it lists {others or 'none'}): it would compute on the CPU",
        hint="patchstack gpu status shows the driver; the build may need a newer one",
    )
