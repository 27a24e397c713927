"""Build the arguments of llama.cpp's tools for a prompt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from patchstack.llama.program import GRAPHS_REUSED, NONE, SECONDS, TRIES, Program
from patchstack.observe.protocol import Model
from patchstack.observe.settings import Environment, pattern_problem, placeholder_problem, variable_problem

COMPLETION = "llama-completion"
SERVER = "llama-server"
_SETTINGS = {
    **dict.fromkeys(("-p", "--prompt"), "prompt"),
    **dict.fromkeys(("-m", "--model"), "model"),
    **dict.fromkeys(("-n", "--predict", "--n-predict"), "tokens"),
    **dict.fromkeys(("-c", "--ctx-size"), "context"),
    **dict.fromkeys(("-s", "--seed"), "seed"),
    **dict.fromkeys(("-ngl", "--gpu-layers", "--n-gpu-layers"), "gpu_layers"),
    **dict.fromkeys(("-fa", "--flash-attn"), "flash_attention"),
}
"""Arguments that are also settings, with the name of the setting."""
_TAKEN = {
    "--no-perf": "removes the line that shows that no output was lost",
    "--log-disable": "removes the line that shows that no output was lost",
    "-fit": "is always off: otherwise, sizes would depend on the free memory",
    "--fit": "is always off: otherwise, sizes would depend on the free memory",
    "--temp": "is always 0",
    "--temperature": "is always 0",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompting:
    """A prompt with the settings for its run.

    The defaults are the settings of the notebook's canonical run. `models` are additional models that `args` refer to.
    """

    model: Model
    prompt: str
    tokens: int
    context: int = 4096
    gpu_layers: int = 99
    seed: int = 1
    flash_attention: str = "on"
    args: tuple[str, ...] = ()
    models: tuple[Model, ...] = ()
    env: Environment = field(default=())
    sentinel: str = GRAPHS_REUSED
    seconds: int = SECONDS
    tries: int = TRIES

    def completion(self) -> Program:
        """Return `llama-completion` with greedy sampling.

        `-fit off` makes sizes independent of the free memory. `--perf` makes the program print the sentinel. `-no-cnv`
        is not added, because a transcript depends on the exact arguments.
        """
        sampling = ("--temp", "0", "--seed", str(self.seed), "-n", str(self.tokens), "-p", self.prompt)
        return self._program(COMPLETION, (*self._loading(self.context), *sampling, "-fit", "off", "--perf"))

    def server(self, slots: int) -> Program:
        """Return `llama-server` with `slots` slots. Each slot has a context of `context` tokens."""
        return self._program(SERVER, (*self._loading(self.context * slots), "-np", str(slots), "-fit", "off"))

    def _loading(self, context: int) -> tuple[str, ...]:
        layers, attention = str(self.gpu_layers), self.flash_attention
        return ("-m", f"{{model:{self.model.name}}}", "-ngl", layers, "-fa", attention, "-c", str(context))

    def _program(self, name: str, args: tuple[str, ...]) -> Program:
        return Program(
            name=name,
            args=(*args, *self.args),
            models=(self.model, *(one for one in self.models if one.name != self.model.name)),
            env=self.env,
            sentinel=self.sentinel if name == COMPLETION else None,
            seconds=self.seconds,
            tries=self.tries,
        )


def in_a_suite(setting: str) -> str:
    """Return the name of a setting as it is written in a suite."""
    return f"{setting}:"


def prompting_problems(prompting: Prompting, named: Callable[[str], str] = in_a_suite) -> list[tuple[str, str]]:
    """Return the problems with a prompt's settings, each with the name of the setting.

    `named` converts the name of a setting to the form that the user writes.
    """
    found = []
    if not prompting.prompt.strip():
        found.append(("prompt", "the prompt is empty"))
    if problem := placeholder_problem(prompting.prompt):
        found.append(("prompt", problem))
    if "\0" in prompting.prompt:
        found.append(("prompt", "the prompt contains a NUL, which an argument cannot contain"))
    if prompting.flash_attention not in ("on", "off", "auto"):
        found.append(("flash_attention", f"{prompting.flash_attention!r} is not on, off or auto"))
    for text in prompting.args:
        word = text.partition("=")[0]
        if word in _SETTINGS:
            found.append(("args", f"use {named(_SETTINGS[word])} instead of {word}"))
        elif word in _TAKEN:
            found.append(("args", f"{word} {_TAKEN[word]}"))
    if prompting.tokens >= prompting.context:
        found.append(("tokens", f"{prompting.tokens} do not fit into a context of {prompting.context}"))
    found += [("env", problem) for name, _ in prompting.env if (problem := variable_problem(name))]
    if prompting.sentinel == NONE:
        found.append(("sentinel", "none: without a sentinel, the transcript may be incomplete"))
    elif problem := pattern_problem(prompting.sentinel):
        found.append(("sentinel", problem))
    return found
