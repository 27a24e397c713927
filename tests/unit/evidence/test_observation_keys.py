"""The keys of observations keep their values: evidence from before a refactoring is found after it.

`tests/support/observation_keys.py` says how `tests/data/observation_keys_2.json` was made. It is never regenerated to
make a test pass. If a test here fails, committed evidence is lost: change the code, not the file.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.observation_keys import FILE, KINDS, RUNS, Ingredients, KeysByGate, key_of, recorded, written

RECORDED: dict[str, KeysByGate] = json.loads(FILE.read_text(encoding="utf-8"))["runs"]
OBSERVATIONS = [one for gates in RECORDED.values() for asked in gates.values() for one in asked]
FIELDS = [field.name for field in dataclasses.fields(Ingredients)]


def without_key(one: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in one.items() if name != "key"}


def changed(value: Any) -> Any:
    """Return a different value of the same type."""
    match value:
        case str():
            return f"{value}x"
        case list():
            return [*value, "x"]
        case _:
            return {**value, "x": "x"}


@pytest.mark.parametrize("name", RUNS)
def test_every_gate_asks_for_the_recorded_observations(name: str, tmp_path: Path) -> None:
    asked = recorded(RUNS[name], tmp_path)
    assert list(asked) == list(RECORDED[name])
    for gate, observations in RECORDED[name].items():
        assert asked[gate] == observations, gate


def test_the_directory_of_a_run_is_in_no_key(tmp_path: Path) -> None:
    name, place = "gpus in an image", tmp_path / "another" / "place with a blank"
    place.mkdir(parents=True)
    asked = recorded(RUNS[name], place)
    assert asked == RECORDED[name]
    assert str(tmp_path) not in json.dumps(asked)


def test_every_ingredient_of_every_observation_changes_its_key() -> None:
    for one in OBSERVATIONS:
        ingredients = without_key(one)
        assert sorted(ingredients) == sorted(FIELDS)
        assert key_of(ingredients) == one["key"]
        keys = {key_of({**ingredients, name: changed(value)}) for name, value in ingredients.items()}
        assert len(keys - {one["key"]}) == len(FIELDS), "every change gives a key of its own"


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_gate_is_recorded(kind: str) -> None:
    assert f"{kind}/1" in {one["kind"] for one in OBSERVATIONS}


@pytest.mark.parametrize("field", FIELDS)
def test_every_ingredient_has_several_values_in_the_record(field: str) -> None:
    assert len({json.dumps(one[field]) for one in OBSERVATIONS}) > 1


def test_different_observations_have_different_keys() -> None:
    found: dict[str, dict[str, Any]] = {}
    for one in OBSERVATIONS:
        assert found.setdefault(one["key"], one) == one


def test_the_file_is_as_its_writer_writes_it() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert written(json.loads(text)) == text
