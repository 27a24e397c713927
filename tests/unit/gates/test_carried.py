"""A suite in a decision is read like the workspace file, and forged ones are refused."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchstack.errors import ConfigError, MissingError
from patchstack.gates.carried import carried_name, carry, unpack
from patchstack.gates.suite import Suite, read_suites
from patchstack.workspace import read_workspace
from tests.support.checkout import DATA

_MODEL = re.compile(r"path='[^']*'")
Spoil = Callable[[dict[str, Any]], object]


class Shelf:
    """Stored contents by name; here the names are numbers."""

    def __init__(self) -> None:
        self.contents: list[bytes] = []

    def keep(self, content: bytes) -> str:
        self.contents.append(content)
        return str(len(self.contents) - 1)

    def read(self, name: str, size: int) -> bytes | None:
        content = self.contents[int(name)]
        return content if len(content) == size else None


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Return a workspace with a suite of every kind of gate."""
    shutil.copytree(DATA / "observation_keys", tmp_path / "w")
    return tmp_path / "w" / "patchstack.yaml"


def without_places(suite: Suite) -> list[dict[str, str]]:
    """Return the gates of a suite without their lines and the paths of models, which a decision does not have."""
    fields = [one.name for one in dataclasses.fields(suite.gates[0]) if one.name != "line"]
    return [{name: _MODEL.sub("", str(getattr(gate, name))) for name in fields} for gate in suite.gates]


def test_every_suite_comes_back_as_it_was_read(world: Path, tmp_path: Path) -> None:
    suites = read_suites(read_workspace(world))
    assert sum(len(suite.gates) for suite in suites) > 10
    for number, suite in enumerate(suites):
        shelf = Shelf()
        carried = carry(world, suite.name, shelf.keep)
        assert carried_name(carried.content) == suite.name
        place = tmp_path / str(number)
        place.mkdir()
        back = unpack(carried.content, shelf.read, place)
        assert str(without_places(back)) == str(without_places(suite)).replace(str(world.parent), str(place))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda document: document.update(schema="patchstack.carried-suite/2"),
        lambda document: document.update(entry=[]),
        lambda document: document.update(entry={"gates": [[]]}),
        lambda document: document.update(models=7),
        lambda document: document["entry"]["gates"][0].update(kind="none"),
        lambda document: document.update(files={"../x": {"sha256": "0", "size": 1}}),
        lambda document: document.update(files={"x": {"sha256": "0", "size": 7}}),
        lambda document: document["entry"].update(more="x"),
    ],
)
def test_a_suite_that_was_spoiled_is_a_complaint_and_no_bug(world: Path, tmp_path: Path, spoil: Spoil) -> None:
    shelf = Shelf()
    document = json.loads(carry(world, read_suites(read_workspace(world))[0].name, shelf.keep).content)
    shelf.contents.insert(0, b"x")
    document["files"] = {}
    spoil(document)
    (tmp_path / "place").mkdir()
    with pytest.raises((ConfigError, MissingError)):
        unpack(json.dumps(document).encode(), shelf.read, tmp_path / "place")


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"7", b'{"suite": 1}', b"[" * 100_000, b'{"a":' * 5000 + b"1" + b"}" * 5000]
)
def test_what_is_no_suite_is_a_complaint_and_no_bug(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ConfigError):
        unpack(content, lambda digest, size: None, tmp_path)


def test_a_suite_that_is_nested_as_deep_as_json_may_be_is_a_complaint(world: Path, tmp_path: Path) -> None:
    document = json.loads(carry(world, read_suites(read_workspace(world))[0].name, Shelf().keep).content)
    for depth in range(100, 1000, 50):
        content = json.dumps({**document, "files": {}, "entry": "deep"}).replace('"deep"', "[" * depth + "]" * depth)
        with pytest.raises(ConfigError):
            unpack(content.encode(), lambda digest, size: None, tmp_path)
