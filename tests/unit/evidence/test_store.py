"""Observations: keyed by everything that can change them, stored completely or not at all."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from patchstack.evidence.key import Ingredients, key_of, observation_key
from patchstack.evidence.outputs import Outputs
from patchstack.evidence.store import BadRecord, Evidence, Observations, Record

INGREDIENTS = Ingredients(
    programs={"llama-completion": "a" * 64},
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
    "programs": {"llama-completion": "d" * 64},
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
    ingredients = INGREDIENTS.document()
    facts = {"code": 0}
    # As JSON returns them: a tuple becomes a list.
    plain = json.loads(json.dumps(ingredients))
    return Record(
        key=observation_key(INGREDIENTS),
        ingredients=plain,
        facts=facts,
        blobs=blobs or {"stdout": b"text\n", "stderr": b""},
    )


def a_cache(directory: Path) -> Observations:
    return Observations(directory / "observations", directory / "outputs")


@pytest.mark.parametrize("blob", [b"", b"text\n", b"\xff\x00\x80", b"x" * 100_000, "ümlaut".encode()])
def test_what_is_kept_is_found_byte_for_byte(tmp_path: Path, blob: bytes) -> None:
    record = a_record(stdout=blob)
    a_cache(tmp_path).keep(record)
    assert a_cache(tmp_path).find(record.key) == record
    evidence = Evidence(tmp_path / "evidence")
    assert evidence.read(evidence.keep(record)) == record


def test_what_was_never_seen_is_not_found(tmp_path: Path) -> None:
    assert a_cache(tmp_path).find("0" * 64) is None
    with pytest.raises(BadRecord, match="cannot be read: No such file"):
        Evidence(tmp_path).read("0" * 64)


def other(text: str, **changes: object) -> str:
    return json.dumps({**json.loads(text), **changes})


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("patchstack.observation/2", "patchstack.observation/1"),
        lambda text: text.replace("observation-key/2", "observation-key/1"),
        lambda text: text.replace('"size": 5', '"size": 4'),
        lambda text: text.replace("LLAMA_KV_PAGED", "LLAMA_KV_PAGES"),
        lambda text: json.dumps([]),
        lambda text: "[" * 100_000,
        lambda text: other(text, outputs={"stdout": {}}),
        lambda text: other(text, outputs={"stdout": {"sha256": "../../x", "size": 1}}),
        lambda text: other(text, facts=[]),
        lambda text: other(text, key="0" * 64),
    ],
)
def test_a_damaged_observation_is_none_and_is_replaced(tmp_path: Path, damage: Callable[[str], str]) -> None:
    store = a_cache(tmp_path)
    record = a_record(stdout=b"hello")
    path = store.keep(record)
    path.write_text(damage(path.read_text()))
    assert store.find(record.key) is None
    store.keep(record)
    assert store.find(record.key) == record


def test_two_records_that_print_the_same_share_one_file(tmp_path: Path) -> None:
    evidence = Evidence(tmp_path)
    one = a_record(stdout=b"y" * 50_000)
    ingredients = {**one.ingredients, "salt": "run 2"}
    other_one = dataclasses.replace(one, ingredients=ingredients, key=key_of(ingredients))
    assert evidence.keep(one) != evidence.keep(other_one)
    (output,) = (tmp_path / "outputs").iterdir()
    assert output.stat().st_size < 500, "it is compressed"
    output.write_bytes(gzip.compress(b"z" * 50_000))
    with pytest.raises(BadRecord, match=r"lacks its stdout: output .* is missing or damaged"):
        evidence.read(evidence_name(evidence))
    evidence.keep(one)
    assert evidence.read(evidence_name(evidence)).blobs["stdout"] == b"y" * 50_000, "a damaged output is written again"


def evidence_name(evidence: Evidence) -> str:
    return next(evidence.digests())


def test_an_output_that_unpacks_to_more_than_its_size_is_not_unpacked(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path)
    bomb = gzip.compress(bytes(1 << 26))
    digest = hashlib.sha256(bytes(1 << 26)).hexdigest()
    outputs.path(digest).write_bytes(bomb)
    assert outputs.read(digest, 10) is None
    assert outputs.read(digest, -5) is None
    assert outputs.read(digest, 1 << 26) == bytes(1 << 26)


@pytest.mark.parametrize("name", ["", "../etc/passwd", "A" * 64, "0" * 63, "0" * 64 + "\n"])
def test_a_record_is_named_by_a_digest_alone(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadRecord):
        Evidence(tmp_path).read(name)


def test_a_record_of_format_1_is_listed_and_held_against_its_digests(tmp_path: Path) -> None:
    text = {"text": "hello", "sha256": hashlib.sha256(b"hello").hexdigest(), "size": 5}
    long = {"sha256": "1" * 64, "size": 9000}
    document = {"schema": "patchstack.observation/1", "key": "a" * 64, "facts": {}, "outputs": {"o": text, "e": long}}
    path = tmp_path / f"{'a' * 64}.json"
    path.write_text(json.dumps(document))
    evidence = Evidence(tmp_path)
    assert list(evidence.old_keys()) == ["a" * 64]
    assert evidence.old_problem("a" * 64) is None
    path.write_text(json.dumps(document).replace("hello", "hullo"))
    assert evidence.old_problem("a" * 64) == "has a o that does not match its digest"
    path.write_text("{")
    assert evidence.old_problem("a" * 64) == "is damaged: JSONDecodeError"
    assert list(evidence.digests()) == [], "it is not a record of format 2"
