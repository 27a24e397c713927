"""Observations: keyed by everything that can change them, kept whole or not at all."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from patchstack.evidence.key import Ingredients, observation_key
from patchstack.evidence.store import Observations, Record

INGREDIENTS = Ingredients(
    programs="a" * 64,
    program="llama-completion",
    args=("-m", "{model:tiny}"),
    env={"LLAMA_KV_PAGED": "1"},
    models={"tiny": "b" * 64},
    inputs={"text": "c" * 64},
    keeps=("base",),
    brings=("out.txt",),
    requests=('["/completion", {}]',),
    hardware="NVIDIA GB10 580.1 linux/arm64",
    kind="completion/1",
    salt="",
)
CHANGES: dict[str, object] = {
    "programs": "d" * 64,
    "program": "llama-server",
    "args": ("{model:tiny}", "-m"),
    "env": {"LLAMA_KV_PAGED": "0"},
    "models": {"tiny": "e" * 64},
    "inputs": {"text": "f" * 64},
    "keeps": (),
    "brings": ("other.txt",),
    "requests": (),
    "hardware": "NVIDIA GB10 581.0 linux/arm64",
    "kind": "completion/2",
    "salt": "run 2",
}


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Ingredients)])
def test_every_ingredient_changes_the_key(field: str) -> None:
    changed = dataclasses.replace(INGREDIENTS, **{field: CHANGES[field]})  # type: ignore[arg-type]
    assert observation_key(changed) != observation_key(INGREDIENTS)


def test_the_order_of_a_mapping_does_not_change_the_key() -> None:
    one = dataclasses.replace(INGREDIENTS, env={"A": "1", "B": "2"})
    other = dataclasses.replace(INGREDIENTS, env={"B": "2", "A": "1"})
    assert observation_key(one) == observation_key(other)


def a_record(**blobs: bytes) -> Record:
    return Record(key="k" * 64, facts={"code": 0}, blobs=blobs or {"stdout": b"text\n", "stderr": b""})


@pytest.mark.parametrize("blob", [b"", b"text\n", b"\xff\x00\x80", b"x" * 100_000, "ümlaut".encode()])
def test_what_is_kept_is_found_byte_for_byte(tmp_path: Path, blob: bytes) -> None:
    store = Observations(tmp_path / "evidence", tmp_path / "outputs")
    record = a_record(stdout=blob)
    store.keep(record)
    assert Observations(tmp_path / "evidence", tmp_path / "outputs").find(record.key) == record


def test_what_was_never_seen_is_not_found(tmp_path: Path) -> None:
    assert Observations(tmp_path, tmp_path).find("0" * 64) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("patchstack.observation/1", "patchstack.observation/2"),
        lambda text: text.replace("text", "tampered"),
        lambda text: text.replace('"code": 0', '"code": 0').replace("hello", "hullo"),
        lambda text: json.dumps([]),
        lambda text: json.dumps({**json.loads(text), "outputs": {"stdout": {}}}),
        lambda text: json.dumps({**json.loads(text), "key": "0" * 64}),
    ],
)
def test_a_damaged_observation_is_none_and_is_replaced(tmp_path: Path, damage: object) -> None:
    assert callable(damage)
    store = Observations(tmp_path / "evidence", tmp_path / "outputs")
    record = a_record(stdout=b"hello")
    path = store.keep(record)
    path.write_text(damage(path.read_text()))
    assert store.find(record.key) is None
    store.keep(record)
    assert store.find(record.key) == record


def test_a_long_output_lies_in_the_cache_and_without_it_nothing_is_known(tmp_path: Path) -> None:
    store = Observations(tmp_path / "evidence", tmp_path / "outputs")
    record = a_record(stdout=b"y" * 50_000)
    path = store.keep(record)
    assert path.stat().st_size < 2000
    (output,) = (tmp_path / "outputs").iterdir()
    output.write_bytes(b"z" * 50_000)
    assert store.find(record.key) is None, "an output that is not what it was is none"
    output.unlink()
    assert store.find(record.key) is None
