"""What a Dockerfile is based on."""

from __future__ import annotations

import re
from collections.abc import Mapping

_INSTRUCTION = re.compile(r"^\s*(ARG|FROM)\s+(.+)$", re.IGNORECASE)
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?:(:[-+])([^}]*))?\})")


def base(text: str, args: Mapping[str, str]) -> str | None:
    """The image that the last stage of a Dockerfile is based on, through other stages if need be, as it names it; None
    for `scratch`, and where there is no FROM. `args` are the build's arguments; those that FROM may use are declared
    before the first one (Dockerfile reference, "Understand how ARG and FROM interact")."""
    values: dict[str, str] = {}
    stages: dict[str, str] = {}
    last = ""
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if (found := _INSTRUCTION.match(line)) is None:
            continue
        if found[1].upper() == "ARG":
            name, _, default = found[2].strip().partition("=")
            if not last:
                values[name] = args.get(name, default.strip("\"'"))
            continue
        words = [word for word in found[2].split() if not word.startswith("--")]
        named = _VARIABLE.sub(lambda variable: _value(variable, values), words[0]) if words else ""
        last = stages.get(named.lower(), named)
        if len(words) == 3 and words[1].upper() == "AS":
            stages[words[2].lower()] = last
    return None if last in ("", "scratch") else last


def _value(variable: re.Match[str], values: Mapping[str, str]) -> str:
    value = values.get(variable[1] or variable[2], "")
    if variable[3] == ":-":
        return value or variable[4]
    if variable[3] == ":+":
        return variable[4] if value else ""
    return value
