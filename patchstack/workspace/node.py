"""Read YAML with typed access to its values.

Every problem is reported with its line number.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchstack.causes import WorkspaceUnusable
from patchstack.files.regular import read_regular

if TYPE_CHECKING:
    from ruamel.yaml.comments import CommentedMap


LARGEST = 1 << 20
"""The default size limit of `read_yaml`, in bytes.

Files that people write are much smaller. An untrusted file that is larger might take too long to parse.
"""


def read_yaml(path: Path, *, comments: bool = True, largest: int = LARGEST) -> Any:
    """Read and parse a YAML file.

    With `comments`, the document keeps its comments and line numbers. Raises `ConfigError` for a file that cannot be
    read, is not YAML, or is larger than `largest` bytes.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError

    try:
        yaml = YAML(typ="rt" if comments else "safe")
        yaml.preserve_quotes = comments
        return yaml.load(read_regular(path, largest).decode("utf-8"))
    except OSError as error:
        raise WorkspaceUnusable(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise WorkspaceUnusable(f"{path} cannot be read: {error}") from error
    except MarkedYAMLError as error:
        mark = error.problem_mark
        line = f":{mark.line + 1}" if mark is not None else ""
        raise WorkspaceUnusable(f"{path}{line}: not YAML: {error.problem or error.context}") from error
    except Exception as error:
        # The parser raises many kinds of errors, for example for dates, tags, huge numbers and deep nesting.
        raise WorkspaceUnusable(
            f"{path}: not YAML: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        ) from error


def as_if_read(value: Any) -> Any:
    """Convert parsed JSON to the form that `read_yaml` returns.

    Every mapping gets the line number 1. Raises `RecursionError` if the nesting is too deep.
    """
    from ruamel.yaml.comments import CommentedMap

    if isinstance(value, list):
        return [as_if_read(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = CommentedMap()
    found.lc.line = found.lc.col = 0
    for key, one in value.items():
        found[key] = as_if_read(one)
    return found


class Node:
    """A YAML mapping with typed access to its values. It collects problems with their line numbers."""

    def __init__(self, node: CommentedMap, path: Path, where: str, problems: list[str]) -> None:
        self.node = node
        self.path = path
        self.where = where
        self.problems = problems
        self.used: list[str] = []

    def complaining_to(self, problems: list[str]) -> Node:
        """Return a node for the same mapping. The new node adds its problems to the list `problems`."""
        return Node(self.node, self.path, self.where, problems)

    def complain(self, key: str | None, text: str) -> None:
        what = f"{self.where}{key}" if key else self.where.rstrip(".")
        self._complain(key, what, text)

    def _complain(self, key: str | None, what: str, text: str) -> None:
        try:
            line = self.node.lc.key(key)[0] if key else self.node.lc.line
        except (AttributeError, KeyError, TypeError):
            line = self.node.lc.line or 0
        self.problems.append(f"{self.path}:{line + 1}: {f'{what}: ' if what else ''}{text}")

    def text(self, key: str, *, required: bool = False) -> str | None:
        value = self._get(key, required)
        if value is None or isinstance(value, str):
            return str(value) if value is not None else None
        scalar = not isinstance(value, dict | list)
        self.complain(key, f"{_brief(value)} is not a string" + ("; put it in quotes" if scalar else ""))
        return None

    def integer(self, key: str, *, default: int) -> int:
        value = self._get(key, required=False)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return default if value is None else int(value)
        self.complain(key, f"{_brief(value)} is not a whole number")
        return default

    def boolean(self, key: str) -> bool:
        value = self._get(key, required=False)
        if value is None or type(value) is bool:
            return bool(value)
        self.complain(key, f"{_brief(value)} is neither true nor false")
        return False

    def mapping(self, key: str, *, required: bool = False) -> Node | None:
        value = self._get(key, required)
        return self._as_mapping(key, value) if value is not None else None

    def texts(self, key: str) -> tuple[str, ...] | None:
        """Return the strings in the list at a key. The list may be empty.

        Return None if the key is missing. Report a value that is not a list of strings, and return None.
        """
        value = self._get(key, False)
        if value is None or (isinstance(value, list) and all(isinstance(one, str) for one in value)):
            return None if value is None else tuple(map(str, value))
        self.complain(key, "not a list of strings")
        return None

    def commands(self, key: str) -> tuple[tuple[str, ...], ...]:
        """Return a list of commands, each as a list of words.

        In the file, a command is a list of words or a string. Strings are split into words as in a shell. Other entries
        are reported.
        """
        import shlex

        found: list[tuple[str, ...]] = []
        value = self._get(key, False)
        for one in value if isinstance(value, list) else ():
            try:
                words = shlex.split(one) if isinstance(one, str) else one
            except ValueError as error:
                self.complain(key, f"{_brief(one)}: {error}")
                continue
            if isinstance(words, list) and words and all(isinstance(word, str) for word in words):
                found.append(tuple(map(str, words)))
            else:
                self.complain(key, f"{_brief(one)} is not a command (a string or a list of words)")
        if value is not None and not isinstance(value, list):
            self.complain(key, "not a list of commands")
        return tuple(found)

    def settings(self, key: str) -> tuple[tuple[str, str], ...]:
        """Return the names and values of a mapping as pairs of strings.

        `true` becomes ON and `false` becomes OFF, as in CMake. Values that are lists, mappings or empty are reported.
        """
        node = self.mapping(key)
        found = []
        for name in node.node if node is not None else ():
            value = node.node[name] if node is not None else None
            if isinstance(value, dict | list) or value is None:
                self._complain(key, f"{self.where}{key}.{name}", f"{_brief(value)} is not a single value")
            else:
                found.append((str(name), {True: "ON", False: "OFF"}[value] if type(value) is bool else str(value)))
        return tuple(found)

    def items(self, key: str) -> list[Node]:
        """Return a node for each mapping in the list at a key. Report the other entries."""
        value = self._get(key, False)
        if not isinstance(value, list):
            if value is not None:
                self.complain(key, "not a list")
            return []
        found = [self._as_mapping(key, one) for one in value]
        return [one for one in found if one is not None]

    def children(self) -> list[tuple[str, Node]]:
        """Return each key with its value as a node. Report the values that are not mappings."""
        found = []
        for key in self.node:
            child = self._as_mapping(key, self.node[key])
            if child is not None:
                found.append((str(key), child))
        return found

    def has(self, key: str, *, required: bool = False) -> bool:
        """Return whether a key has a value. Report a key without a value, and a required key that is missing."""
        return self._get(key, required) is not None

    def finish(self) -> None:
        """Report every key that was not read, because such a key is unknown."""
        for key in self.node:
            if key not in self.used:
                near = difflib.get_close_matches(str(key), self.used, 1)
                known = ", ".join(dict.fromkeys(self.used))
                hint = f", perhaps you meant {near[0]}" if near else f" (known: {known})"
                self._complain(key, f"{self.where}{key}", f"unknown key{hint}")

    def _get(self, key: str, required: bool) -> Any:
        self.used.append(key)
        value = self.node.get(key)
        if value is None and (required or key in self.node):
            self.complain(key if key in self.node else None, f"{key} is {'empty' if key in self.node else 'missing'}")
        return value

    def _as_mapping(self, key: str, value: object) -> Node | None:
        from ruamel.yaml.comments import CommentedMap

        if isinstance(value, CommentedMap):
            return Node(value, self.path, f"{self.where}{key}.", self.problems)
        self.complain(key, "not a mapping of keys to values")
        return None


def _brief(value: object) -> str:
    """Return a short form of a value for a message.

    The contents of lists and mappings are not shown, because YAML aliases can make them huge.
    """
    if isinstance(value, list):
        return "a list"
    return "a mapping" if isinstance(value, dict) else repr(value)[:80]
