"""Compare the compute paths that arguments and environment select.

Also check that the programs of a build use the GPU.
"""

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
"""Programs of llama.cpp that accept `--list-devices`, in the order in which they are tried."""
_HEAD = b"Available devices:"
_CUDA = re.compile(rb"^\s+CUDA\d+: ", re.MULTILINE)


def require_gpu(runner: Runner) -> None:
    """Raise `NotFit` if a program of llama.cpp lists no CUDA device, because it would compute on the CPU.

    The check is skipped if the build has none of the `TOOLS`, or if the program does not support `--list-devices`. The
    list of devices is not cached, because it can change while the keys of observations remain the same.
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
        f"{program} finds no CUDA device (it lists {others or 'none'}), so it would compute on the CPU",
        hint="run 'patchstack gpu status' to show the driver; the build may need a newer driver",
    )


# Options of llama-completion and llama-server for input and display. They do not affect the computation.
_WORDS = (
    *("-no-cnv", "--no-conversation", "-cnv", "--conversation", "-st", "--single-turn", "--jinja", "--no-jinja"),
    *("--ignore-eos", "--no-display-prompt", "-sp", "--special", "--simple-io", "-e", "--escape", "--no-escape"),
)
_WORDS_WITH_VALUE = (
    *("-sys", "--system-prompt", "--chat-template", "--chat-template-file", "--chat-template-kwargs"),
    *("-r", "--reverse-prompt", "--in-prefix", "--in-suffix"),
)
_QUIET = ("GGML_NO_BACKTRACE",)  # this variable affects only the output of a crash


def path_args(prompting: Prompting) -> tuple[str, ...]:
    """Return the arguments of a prompt that select the compute path.

    Options for input and display are omitted. They do not affect the computation, and `llama-perplexity` does not need
    them.
    """
    layers, attention = ("-ngl", str(prompting.gpu_layers)), ("-fa", prompting.flash_attention)
    return (*layers, *attention, *_without_words(prompting.args))


def same_path(prompting: Prompting, side: Side) -> str | None:
    """Return the reason why one side of a KL comparison uses a different model or compute path than a prompt.

    Return None if the models and the paths are the same.
    """
    mine, theirs = _settled(path_args(prompting)), _settled((*KL_FIXED, *side.args))
    if side.model != prompting.model:
        return f"its model is {side.model.name}, not {prompting.model.name}"
    if mine != theirs:
        return f"it runs with {' '.join(theirs)}, but the gate with {' '.join(mine)}"
    return None


def same_environment(one: Environment, other: Environment) -> bool:
    """Return whether two environments are equal, except for variables that do not affect results."""
    return {pair for pair in one if pair[0] not in _QUIET} == {pair for pair in other if pair[0] not in _QUIET}


def _settled(args: Sequence[str]) -> tuple[str, ...]:
    """Return arguments in a normal form.

    The last `-ngl` and the last `-fa` count. `-fit`, `-lv` and `--perf` are omitted, because patchstack sets them.
    """
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
