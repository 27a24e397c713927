"""Read settings that several kinds of gates have in common: environments, patterns, models and arguments."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from patchstack.observe.protocol import Model
from patchstack.workspace.node import Node

Environment = tuple[tuple[str, str], ...]
"""Names and values of environment variables, sorted by name."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_OURS = ("PATH", "HOME", "LC_ALL")  # set by the engine for every job
_MODEL = re.compile(r"\{model:([^{}]*)\}")
_PATH = re.compile(r"\{(?:model|input|kept|work)(?::[^{}]*)?\}")


def environment(node: Node, key: str = "env") -> Environment:
    """Read environment variables from a mapping of names to strings or integers.

    Complains about values such as `true`, `1.0` and `0x10`: YAML does not preserve their spelling, so the program would
    receive a different text.
    """
    child = node.mapping(key)
    found = {}
    for name in child.node if child is not None else ():
        value = child.node[name] if child is not None else None
        if problem := variable_problem(str(name)):
            node.complain(key, problem)
        elif isinstance(value, str) or type(value) is int or _zero(value):
            found[str(name)] = str(value)
        else:
            node.complain(key, f"the value of {name} is not text; put it in quotes")
    return tuple(sorted(found.items()))


def variable_problem(name: str) -> str | None:
    """Return why a gate must not set a variable. Return None if it may."""
    if not _NAME.match(name):
        return f"{name!r} is not a variable name"
    if name in _OURS or name.startswith("LD_"):
        return f"{name} is set by the engine: with a different value, other programs or libraries would be used"
    return None


def merged(*parts: Environment) -> dict[str, str]:
    """Merge environments into one. Later values override earlier ones."""
    return {name: value for part in parts for name, value in part}


def bounded(node: Node, key: str, *, default: int, least: int, most: int) -> int:
    """Read a whole number from `least` to `most`. Return the default if it is missing, or after a complaint."""
    if _zero(node.node.get(key)):
        node.used.append(key)
        value = 0
    else:
        value = node.integer(key, default=default)
    if least <= value <= most:
        return value
    node.complain(key, f"must be from {least} to {most}, not {value}")
    return default


def _zero(value: object) -> bool:
    """Return whether a value was written as the single digit `0`.

    ruamel does not return an `int` for `0` or for a number with leading zeros, but a subclass that stores the number of
    digits in `_width`.
    """
    return isinstance(value, int) and type(value) is not bool and value == 0 and getattr(value, "_width", 0) == 1


def pattern(node: Node, key: str, *, default: str | None = None, required: bool = False) -> str | None:
    """Read a Python regular expression. Return the default if it is missing, or after a complaint."""
    text = node.text(key, required=required)
    if text is not None and (problem := pattern_problem(text)):
        node.complain(key, problem)
        return default
    return text if text is not None else default


def patterns(node: Node, key: str) -> tuple[str, ...]:
    """Read a list of regular expressions, or a single regular expression. Invalid ones are omitted."""
    if isinstance(node.node.get(key), list):
        texts = node.texts(key) or ()
    else:
        one = node.text(key)
        texts = (one,) if one is not None else ()
    for problem in filter(None, map(pattern_problem, texts)):
        node.complain(key, problem)
    return tuple(text for text in texts if pattern_problem(text) is None)


def pattern_problem(text: str) -> str | None:
    """Return why a regular expression cannot be used: it is invalid, or it matches every text.

    Returns None if it can be used.
    """
    try:
        found = re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        return f"{text!r} is not a regular expression: {error}"
    return f"{text!r} matches every text, so it tests nothing" if found.search("") else None


def model(node: Node, models: Mapping[str, Model], key: str = "model") -> Model:
    """Read the name of a model, and return this model. Return a model without a path after a complaint."""
    name = node.text(key, required=True)
    if name is None:
        return Model(name="", path="")
    if name not in models:
        node.complain(key, unknown_model(name, models))
        return Model(name=name, path="")
    return models[name]


def unknown_model(name: str, models: Iterable[str]) -> str:
    """Return the complaint about an unknown model."""
    known = list(models)
    near = difflib.get_close_matches(name, known, 1)
    return f"there is no model {name!r}" + (
        f", perhaps you meant {near[0]}" if near else f" (known: {', '.join(known) or 'none; list it below models:'})"
    )


def arguments(node: Node, models: Mapping[str, Model], key: str = "args") -> tuple[tuple[str, ...], tuple[Model, ...]]:
    """Read a list of arguments. Return the arguments, and the models that they refer to as `{model:NAME}`.

    Unknown models are omitted after a complaint.
    """
    args = node.texts(key) or ()
    named = models_named(args)
    for name in named:
        if name not in models:
            node.complain(key, unknown_model(name, models))
    return args, tuple(models[name] for name in named if name in models)


def models_named(args: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the models that arguments refer to as `{model:NAME}`, without duplicates."""
    return tuple(dict.fromkeys(name for text in args for name in _MODEL.findall(text)))


def placeholder_problem(text: str) -> str | None:
    """Return why a string cannot be used literally as an argument. Return None if it can.

    A placeholder in the string would be replaced by a path.
    """
    found = _PATH.search(text)
    return f"{found.group(0)} would be replaced by a path" if found else None
