"""GitHub's expressions, as far as the workflows here use them (its docs: "Evaluate expressions in workflows")."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>-?\d+(?:\.\d+)?)|(?P<name>[A-Za-z_][A-Za-z0-9_-]*)"
    r"|(?P<sign>&&|\|\||==|!=|<=|>=|[!<>()\[\].,*]))"
)
_WHOLE = re.compile(r"\s*\$\{\{(?P<inside>(?:(?!\}\}).)*)\}\}\s*\Z", re.DOTALL)
_PART = re.compile(r"\$\{\{((?:(?!\}\}).)*)\}\}", re.DOTALL)
Functions = Mapping[str, Callable[..., Any]]

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "format": lambda template, *values: re.sub(r"\{(\d+)\}", lambda m: text_of(values[int(m.group(1))]), template),
    "fromjson": json.loads,
    "tojson": json.dumps,
    "startswith": lambda text, start: text_of(text).lower().startswith(text_of(start).lower()),
    "endswith": lambda text, end: text_of(text).lower().endswith(text_of(end).lower()),
    "contains": lambda whole, part: part in whole,
}


def filled(template: Any, contexts: Mapping[str, Any], functions: Functions = FUNCTIONS) -> Any:
    """Return a value of a workflow with its expressions evaluated. A single expression keeps its type."""
    if not isinstance(template, str):
        return template
    if whole := _WHOLE.match(template):
        return evaluate(whole.group("inside"), contexts, functions)
    return _PART.sub(lambda found: text_of(evaluate(found.group(1), contexts, functions)), template)


def condition(template: str, contexts: Mapping[str, Any], functions: Functions) -> bool:
    """Return the value of an `if:`, with or without braces."""
    whole = _WHOLE.match(template)
    return truth(evaluate(whole.group("inside") if whole else template, contexts, functions))


def evaluate(text: str, contexts: Mapping[str, Any], functions: Functions = FUNCTIONS) -> Any:
    """Return the value of an expression. Raises `ValueError` for an invalid expression, and for an unknown function."""
    parser = _Parser(text, contexts, functions)
    value = parser.either()
    if parser.at < len(parser.tokens):
        raise ValueError(f"{text!r}: {parser.tokens[parser.at]} is not expected")
    return value


def truth(value: Any) -> bool:
    return value not in (None, False, 0, "") or value is True


def text_of(value: Any) -> str:
    """Return a value as text, as GitHub writes it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value) if isinstance(value, dict | list) else str(value)


def _number(value: Any) -> float:
    if value is None or value == "":
        return 0.0
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, str) and isinstance(right, str):
        return left.lower() == right.lower()
    return left == right if type(left) is type(right) else _number(left) == _number(right)


class _Parser:
    def __init__(self, text: str, contexts: Mapping[str, Any], functions: Functions) -> None:
        self.tokens: list[tuple[str, str]] = []
        self.contexts, self.functions = contexts, functions
        self.at = 0
        place = 0
        while place < len(text.rstrip()):
            found = _TOKEN.match(text, place)
            if found is None:
                raise ValueError(f"{text!r} is not an expression at {text[place:]!r}")
            assert found.lastgroup is not None
            self.tokens.append((found.lastgroup, found.group(found.lastgroup)))
            place = found.end()

    def _next(self, *signs: str) -> str | None:
        if self.at < len(self.tokens) and self.tokens[self.at] in [("sign", sign) for sign in signs]:
            self.at += 1
            return self.tokens[self.at - 1][1]
        return None

    def _must(self, sign: str) -> None:
        if self._next(sign) is None:
            raise ValueError(f"{sign} is missing in {self.tokens}")

    def either(self) -> Any:
        value = self._both()
        while self._next("||"):
            other = self._both()
            value = value if truth(value) else other
        return value

    def _both(self) -> Any:
        value = self._compared()
        while self._next("&&"):
            other = self._compared()
            value = other if truth(value) else value
        return value

    def _compared(self) -> Any:
        value = self._one()
        while sign := self._next("==", "!="):
            value = _equal(value, self._one()) is (sign == "==")
        return value

    def _one(self) -> Any:
        if self._next("!"):
            return not truth(self._one())
        if self._next("("):
            value = self.either()
            self._must(")")
            return self._inside(value)
        kind, text = self.tokens[self.at]
        self.at += 1
        if kind == "text":
            return text[1:-1].replace("''", "'")
        if kind == "number":
            return float(text) if "." in text else int(text)
        if kind != "name":
            raise ValueError(f"{text} is not expected")
        if text in ("true", "false", "null"):
            return {"true": True, "false": False, "null": None}[text]
        if self._next("("):
            return self._inside(self._called(text.lower()))
        if text not in self.contexts:
            raise ValueError(f"there is no context {text}")
        return self._inside(self.contexts[text])

    def _called(self, name: str) -> Any:
        given = []
        while not self._next(")"):
            given.append(self.either())
            self._next(",")
        if name not in self.functions:
            raise ValueError(f"there is no function {name}")
        return self.functions[name](*given)

    def _inside(self, value: Any) -> Any:
        while sign := self._next(".", "["):
            if sign == ".":
                name = self.tokens[self.at][1]
                self.at += 1
            else:
                name = self.either()
                self._must("]")
            value = value.get(name) if isinstance(value, Mapping) else None
        return value
