"""Define the settings that several kinds of gates and workloads share.

Some settings describe a prompt, and others describe a program with its own arguments.
"""

from __future__ import annotations

from patchstack.llama.program import GRAPHS_REUSED, NONE, Program, program_problem, sentinel_of
from patchstack.llama.prompt import Prompting, prompting_problems
from patchstack.observe.declared import (
    NO_ARGS,
    NO_MODEL,
    Args,
    Arguments,
    ModelName,
    Number,
    Pattern,
    Setting,
    Text,
    Values,
    Variables,
    Whole,
)
from patchstack.observe.protocol import Model
from patchstack.observe.settings import Environment

MODEL = Setting[Model](
    name="model",
    form=ModelName(),
    default=NO_MODEL,
    required=True,
    metavar="FILE",
    help="The model, on the engine's machine.",
)
PROMPT = Setting[str](name="prompt", form=Text(), default="", required=True, metavar="TEXT", help="The prompt.")
TOKENS = Setting[int](
    name="tokens",
    form=Whole(1, 1 << 20),
    default=48,
    unit="tokens",
    metavar="N",
    help="The number of tokens to generate.",
)
CONTEXT = Setting[int](
    name="context",
    form=Whole(16, 1 << 24),
    default=4096,
    unit="tokens",
    metavar="N",
    help="The size of the context.",
)
GPU_LAYERS = Setting[int](
    name="gpu_layers",
    form=Whole(0, 9999),
    default=99,
    unit="layers",
    metavar="N",
    help="The number of layers on the GPU.",
)
SEED = Setting[int](name="seed", form=Whole(0, (1 << 32) - 1), default=1, metavar="N", help="The sampler's seed.")
FLASH_ATTENTION = Setting[str](
    name="flash_attention",
    form=Text(written="`on`, `off` or `auto`"),
    default="on",
    metavar="on|off|auto",
    help="The value of -fa.",
)
ARGS = Setting[Args](
    name="args",
    form=Arguments(),
    default=NO_ARGS,
    flag="--arg",
    metavar="TEXT",
    help="One more argument for the program (repeat).",
)
ENV = Setting[Environment](
    name="env",
    form=Variables(),
    default=(),
    metavar="K=V",
    help="An environment variable for the program (repeat). Your own variables are not passed on.",
)
SENTINEL = Setting[str | None](
    name="sentinel",
    form=Pattern(words=(NONE,)),
    default=None,
    metavar="REGEX",
    help="The pattern of a line that only complete output contains. The value none disables the check.",
)
SECONDS = Setting[int](
    name="seconds", form=Whole(1, 86_400), default=600, unit="seconds", metavar="N", help="The time limit of one run."
)
TRIES = Setting[int](
    name="tries",
    form=Whole(1, 20),
    default=5,
    metavar="N",
    help="The maximum number of tries for a run that cannot be judged.",
)
LOADING = (CONTEXT, GPU_LAYERS, SEED, FLASH_ATTENTION, ARGS)
"""The settings with which the model of a prompt is loaded and run."""
PROMPTING = (MODEL, PROMPT, TOKENS, *LOADING, ENV, SENTINEL, SECONDS, TRIES)
"""All settings that `prompting_of` reads. The default is used for a setting that a kind does not declare."""

PROGRAM = Setting[str](
    name="program",
    form=Text(written="the name of a program in bin", check=program_problem),
    default="",
    required=True,
    metavar="NAME",
    help="The name of the program in bin.",
)
ITS_MODEL = Setting[Model](
    name="model",
    form=ModelName(),
    default=NO_MODEL,
    in_suite=False,
    metavar="FILE",
    help="A model. Write {model:model} in --arg for its path.",
)
"""The model of a program with its own arguments. The arguments refer to the model as `{model:model}`."""
SWITCH = Setting[Environment](
    name="switch",
    form=Variables(),
    default=(),
    in_suite=False,
    metavar="K=V",
    help="Also run with this variable, and require the same transcript (repeat).",
)
MARGIN = Setting[float](
    name="margin",
    form=Number(
        written="a difference in probability, from 0 up to 1",
        holds=lambda value: 0 <= value < 1,
        problem="is not a difference in probability: from 0 up to 1",
    ),
    default=0.0,
    metavar="P",
    help="Report INVALID, not FAIL, if the two tokens differ in probability by at most P.",
)


def prompting_of(values: Values) -> Prompting:
    """Return the prompt that the settings in `PROMPTING` describe.

    Problems with the settings are reported on `values`.
    """
    args = values[ARGS]
    prompting = Prompting(
        model=values[MODEL],
        prompt=values[PROMPT],
        tokens=values[TOKENS],
        context=values[CONTEXT],
        gpu_layers=values[GPU_LAYERS],
        seed=values[SEED],
        flash_attention=values[FLASH_ATTENTION],
        args=args.args,
        models=args.models,
        env=values[ENV],
        sentinel=values[SENTINEL] or GRAPHS_REUSED,
        seconds=values[SECONDS],
        tries=values[TRIES],
    )
    values.complain_all(prompting_problems(prompting, values.written))
    return prompting


def program_of(values: Values) -> Program:
    """Return the program that the settings describe.

    The settings are `PROGRAM`, `ARGS`, `ITS_MODEL`, `ENV`, `SENTINEL`, `SECONDS` and `TRIES`.
    """
    args, model, sentinel = values[ARGS], values[ITS_MODEL], values[SENTINEL]
    return Program(
        name=values[PROGRAM],
        args=args.args,
        models=args.models or ((model,) if model != NO_MODEL else ()),
        env=values[ENV],
        sentinel=None if sentinel == NONE else sentinel or sentinel_of(values[PROGRAM]),
        seconds=values[SECONDS],
        tries=values[TRIES],
    )
