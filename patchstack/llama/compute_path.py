"""The path through a model that arguments and environment choose, and whether a build's programs see the GPU."""

from __future__ import annotations

import re
from collections.abc import Sequence

from patchstack.llama.kl import FIXED as KL_FIXED
from patchstack.llama.kl import Side
from patchstack.llama.prompt import Prompting
from patchstack.observe.exclusive import NotFit
from patchstack.observe.protocol import Invocation
from patchstack.observe.runner import Runner
from patchstack.observe.settings import Environment

TOOLS = ("llama-completion", "llama-server", "llama-perplexity", "llama-batched-bench")
"""Programs of llama.cpp that take `--list-devices`, in the order they are asked."""
_HEAD = b"Available devices:"
_CUDA = re.compile(rb"^\s+CUDA\d+: ", re.MULTILINE)


def require_gpu(runner: Runner) -> None:
    """Raise `NotFit` if the programs would compute on the CPU: one of llama.cpp's lists no CUDA device.
    Where none of them exists, or it knows no `--list-devices`, nothing can be said.

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


# Of llama-completion and llama-server: what is put to the model and what is shown of it, not how it is computed.
_WORDS = (
    *("-no-cnv", "--no-conversation", "-cnv", "--conversation", "-st", "--single-turn", "--jinja", "--no-jinja"),
    *("--ignore-eos", "--no-display-prompt", "-sp", "--special", "--simple-io", "-e", "--escape", "--no-escape"),
)
_WORDS_WITH_VALUE = (
    *("-sys", "--system-prompt", "--chat-template", "--chat-template-file", "--chat-template-kwargs"),
    *("-r", "--reverse-prompt", "--in-prefix", "--in-suffix"),
)
_QUIET = ("GGML_NO_BACKTRACE",)  # changes what a crash prints, and nothing else


def path_args(prompting: Prompting) -> tuple[str, ...]:
    """The arguments of a prompt that choose how it is computed, for a tool that takes a text."""
    layers, attention = ("-ngl", str(prompting.gpu_layers)), ("-fa", prompting.flash_attention)
    return (*layers, *attention, *_without_words(prompting.args))


def same_path(prompting: Prompting, side: Side) -> str | None:
    """Why a side of a KL divergence is computed otherwise than a prompt; None if it is not."""
    mine, theirs = _settled(path_args(prompting)), _settled((*KL_FIXED, *side.args))
    if side.model != prompting.model:
        return f"its model is {side.model.name}, not {prompting.model.name}"
    if mine != theirs:
        return f"it runs with {' '.join(theirs)}, and the gate with {' '.join(mine)}"
    return None


def same_environment(one: Environment, other: Environment) -> bool:
    """Whether two environments are the same, but for what changes no result."""
    return {pair for pair in one if pair[0] not in _QUIET} == {pair for pair in other if pair[0] not in _QUIET}


def _settled(args: Sequence[str]) -> tuple[str, ...]:
    """Arguments in one form: the last of `-ngl` and of `-fa` wins, what every run of a gate has is left out."""
    last: dict[str, str] = {}
    rest: list[str] = []
    words = iter(args)
    for word in words:
        if word in ("-ngl", "-fa"):
            last[word] = next(words, "")
        elif word in ("-fit", "-lv"):
            next(words, "")
        elif word != "--perf":
            rest.append(word)
    return (*(text for name in ("-ngl", "-fa") for text in (name, last.get(name, ""))), *rest)


def _without_words(args: Sequence[str]) -> list[str]:
    found = []
    words = iter(args)
    for word in words:
        if word in _WORDS_WITH_VALUE:
            next(words, None)
        elif word not in _WORDS:
            found.append(word)
    return found
