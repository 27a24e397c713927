"""provenance.json: what stands in it, and what is said of one that is damaged."""

from __future__ import annotations

import builtins
import json
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import patchstack
from patchstack.builds.record.provenance import (
    BUILD_TYPE,
    FILE,
    Provenance,
    Resource,
    Subject,
    file,
    image,
    parse,
    pin,
    public_url,
    read_provenance,
    render,
    write_provenance,
)
from patchstack.errors import ConfigError, Exit, MissingError, PatchstackError, UsageError
from tests.support.compiled import KEY

COMMIT, TREE = "c" * 40, "d" * 40
STARTED = datetime(2026, 6, 28, 10, 0, 0, 250000, tzinfo=UTC)


def a_build() -> Provenance:
    return Provenance(
        key=KEY,
        subjects=(Subject(name="llama-completion", sha256="a" * 64), Subject(name="libggml.so.0", sha256="b" * 64)),
        materials=(
            pin(COMMIT, tree=TREE, upstream="https://me:secret@github.com/ggml-org/llama.cpp"),
            file("patches/paged/0001-kv.patch", "e" * 64, number=1),
            image("nvidia/cuda:13.0.1-devel", f"sha256:{'f' * 64}", platform="linux/arm64"),
            Resource(name="toolchain", digest={"sha256": "1" * 64}, notes={"nvcc": "13.0.88", "cmake": "3.25.1"}),
        ),
        external={"variant": "cuda-sm121", "arch": "121a", "targets": ("llama-completion",), "define": {"A": "2"}},
        internal={"engine": "docker", "memory": 64 << 30, "cpus": 1.5, "seconds": None},
        started=STARTED,
        finished=STARTED + timedelta(minutes=19),
        byproducts=(file("build.log", "9" * 64), Resource(name="ccache", notes={"hits": 12, "misses": 3})),
        versions={"docker": "20.10.24"},
    )


def test_it_is_an_in_toto_statement_with_slsa_provenance() -> None:
    document = json.loads(render(a_build()))
    predicate = document.pop("predicate")
    assert document == {
        "_type": "https://in-toto.io/Statement/v1",
        "predicateType": "https://slsa.dev/provenance/v1",
        "subject": [
            {"name": "llama-completion", "digest": {"sha256": "a" * 64}},
            {"name": "libggml.so.0", "digest": {"sha256": "b" * 64}},
        ],
    }
    assert predicate["buildDefinition"] == {
        "buildType": BUILD_TYPE,
        "externalParameters": {
            "variant": "cuda-sm121",
            "arch": "121a",
            "targets": ["llama-completion"],
            "define": {"A": "2"},
        },
        "internalParameters": {"engine": "docker", "memory": 68719476736, "cpus": 1.5, "seconds": None},
        "resolvedDependencies": [
            {
                "name": "pin",
                "uri": f"git+https://github.com/ggml-org/llama.cpp@{COMMIT}",
                "digest": {"gitCommit": COMMIT, "gitTree": TREE},
            },
            {"name": "patches/paged/0001-kv.patch", "digest": {"sha256": "e" * 64}, "annotations": {"number": 1}},
            {
                "name": "image",
                "digest": {"sha256": "f" * 64},
                "annotations": {"reference": "nvidia/cuda:13.0.1-devel", "platform": "linux/arm64"},
            },
            {
                "name": "toolchain",
                "digest": {"sha256": "1" * 64},
                "annotations": {"nvcc": "13.0.88", "cmake": "3.25.1"},
            },
        ],
    }
    assert predicate["runDetails"] == {
        "builder": {"id": f"pkg:pypi/patchstack@{patchstack.__version__}", "version": {"docker": "20.10.24"}},
        "metadata": {
            "invocationId": KEY,
            "startedOn": "2026-06-28T10:00:00.250Z",
            "finishedOn": "2026-06-28T10:19:00.250Z",
        },
        "byproducts": [
            {"name": "build.log", "digest": {"sha256": "9" * 64}},
            {"name": "ccache", "annotations": {"hits": 12, "misses": 3}},
        ],
    }


def test_the_same_build_gives_the_same_bytes() -> None:
    build = a_build()
    turned = replace(build, external=dict(reversed(list(build.external.items()))), versions=dict(build.versions))
    content = render(build)
    assert render(turned) == content
    assert content.endswith(b"}\n")
    assert content.decode() == json.dumps(json.loads(content), indent=2, sort_keys=True) + "\n"
    assert b'"memory": 68719476736,\n' in content


def test_times_of_any_zone_are_written_in_utc() -> None:
    local = STARTED.astimezone(timezone(timedelta(hours=2)))
    assert render(replace(a_build(), started=local)) == render(a_build())


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / FILE
    path.write_text("an old one")
    write_provenance(path, a_build())
    found = read_provenance(path)
    assert found == replace(a_build(), external={**a_build().external, "targets": ["llama-completion"]})
    assert render(found) == path.read_bytes()
    assert [each.name for each in tmp_path.iterdir()] == [FILE]
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    (tmp_path / FILE / "x").touch()
    with pytest.raises(MissingError, match=r"provenance\.json cannot be written: Is a directory"):
        write_provenance(tmp_path / FILE, a_build())
    assert [each.name for each in tmp_path.iterdir()] == [FILE]
    with pytest.raises(MissingError, match=r"none/provenance\.json cannot be written: No such file or directory"):
        write_provenance(tmp_path / "none" / FILE, a_build())


@pytest.mark.parametrize(
    ("url", "public"),
    [
        ("https://github.com/ggml-org/llama.cpp", "https://github.com/ggml-org/llama.cpp"),
        ("https://user:token@host:8443/a.git?access_token=t#x", "https://host:8443/a.git"),
        ("https://token@host/a@b.git", "https://host/a@b.git"),
        ("ssh://git@host/a.git", "ssh://host/a.git"),
        ("git@github.com:me/llama.cpp.git", "ssh://github.com/me/llama.cpp.git"),
        ("host:/srv/a.git", "ssh://host/srv/a.git"),
        ("file:///home/me/llama.cpp", None),
        ("/home/me/llama.cpp", None),
        ("../llama.cpp", None),
        ("./a:b", None),
        ("https://[bad", None),
        ("https://", None),
    ],
)
def test_urls_are_written_without_credentials_and_paths_not_at_all(url: str, public: str | None) -> None:
    assert public_url(url) == public


def test_a_pin_from_a_path_is_known_by_its_commit_alone() -> None:
    assert pin(COMMIT, upstream="/home/me/llama.cpp") == Resource(name="pin", digest={"gitCommit": COMMIT})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"subjects": ()}, "At least one subject required"),
        ({"subjects": (Subject(name="a", sha256="short"),)}, "a: short is no sha256"),
        ({"subjects": (Subject(name="", sha256="a" * 64),)}, "a subject has no name"),
        ({"subjects": (Subject(name="a", sha256="a" * 64),) * 2}, "two subjects have the name a"),
        ({"materials": (pin("c" * 39),)}, f"pin: {'c' * 39} is no gitCommit"),
        ({"materials": (image("a", "sha512:1"),)}, "image: sha512:1 is no sha256"),
        ({"materials": (Resource(name=""),)}, "At least one of name, URI, or digest need to be set"),
        ({"key": "abc"}, "the build key: abc is no sha256"),
        ({"external": {}}, "it has no external parameters"),
        ({"started": STARTED.replace(tzinfo=None)}, "2026-06-28T10:00:00.250000 has no time zone"),
    ],
)
def test_what_would_be_no_valid_statement_is_not_written(change: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        render(replace(a_build(), **change))
    assert caught.value.message == f"no provenance can be written of this build: {words}"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"bytes"])
def test_a_parameter_that_json_has_no_word_for_is_not_written(value: Any) -> None:
    with pytest.raises(UsageError, match="no provenance can be written of this build: "):
        render(replace(a_build(), external={"value": value}))


Edit = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda it: it.update(_type="https://in-toto.io/Statement/v0.1"), "Wrong statement type"),
        (lambda it: it.pop("_type"), "Wrong statement type"),
        (lambda it: it.update(subject=[]), "At least one subject required"),
        (lambda it: it["subject"][0].pop("digest"), "At least one digest required (subject 0)"),
        (lambda it: it["subject"][0].pop("name"), "a subject has no name"),
        (lambda it: it["subject"][0].update(digest={"md5": "1"}), "llama-completion: nothing is no sha256"),
        (lambda it: it["subject"].append(it["subject"][0]), "two subjects have the name llama-completion"),
        (lambda it: it.pop("predicateType"), "its predicate is nothing, not https://slsa.dev/provenance/v1"),
        (
            lambda it: it.update(predicateType="https://slsa.dev/provenance/v0.2"),
            "its predicate is https://slsa.dev/provenance/v0.2, not https://slsa.dev/provenance/v1",
        ),
        (lambda it: it.pop("predicate"), "Predicate object required"),
        (lambda it: it["predicate"].pop("runDetails"), "it does not say which build it is of (no invocationId)"),
        (
            lambda it: it["predicate"].pop("buildDefinition"),
            "its build type is nothing, not urn:patchstack:build:1",
        ),
        (
            lambda it: it["predicate"]["buildDefinition"].update(buildType="urn:other"),
            "its build type is urn:other, not urn:patchstack:build:1",
        ),
        (
            lambda it: it["predicate"]["runDetails"]["metadata"].update(invocationId="7"),
            "the build key: 7 is no sha256",
        ),
        (lambda it: it["predicate"]["runDetails"].pop("builder"), "it does not say who built it (no builder id)"),
        (
            lambda it: it["predicate"]["runDetails"]["metadata"].pop("finishedOn"),
            "it does not say when the build was made",
        ),
        (
            lambda it: it["predicate"]["buildDefinition"].pop("externalParameters"),
            "it has no external parameters",
        ),
        (
            lambda it: it["predicate"]["buildDefinition"]["resolvedDependencies"][1]["digest"].update(sha256="x"),
            "patches/paged/0001-kv.patch: x is no sha256",
        ),
    ],
)
def test_a_file_that_is_something_else_is_told_apart(tmp_path: Path, edit: Edit, words: str) -> None:
    document = json.loads(render(a_build()))
    edit(document)
    path = tmp_path / FILE
    path.write_text(json.dumps(document))
    with pytest.raises(ConfigError) as caught:
        read_provenance(path)
    assert caught.value.message == f"{path} is not the provenance of a build: {words}"
    assert caught.value.hint == "build it again: patchstack build"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"subject": ' + b'{"a":' * 3000 + b"1" + b"}" * 3001,
        b'{"subject": "text"}',
        b'{"subject": [1]}',
        b'{"predicate": []}',
        b'{"_type": "\\ud800"}',
        b'{"predicate": {"a": NaN}}',
        b'{"subject": [{"digest": ["a"]}]}',
    ],
)
def test_garbage_is_no_crash(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(ConfigError, match=r"is not the provenance of a build: "):
        read_provenance(tmp_path / FILE)


def test_no_damage_is_a_crash(tmp_path: Path) -> None:
    whole = render(a_build())
    dice = random.Random(4)
    refused = 0
    for _ in range(1500):
        content = bytearray(whole)
        for _ in range(dice.randint(1, 4)):
            start = dice.randrange(len(content))
            content[start : start + dice.choice([0, 1, 1, 9])] = dice.choice(
                [b"", b"{", b"[", b"1", b"null", b'"', b"\0"]
            )
        try:
            parse(bytes(content), tmp_path / FILE)
        except PatchstackError as error:
            refused += 1
            assert error.exit_code is Exit.USAGE
    assert refused > 500


def shapes(value: Any) -> list[Any]:
    """A document with one of its values replaced by another kind of value, in every place."""
    others = [None, 7, "text", [], {}, [1], {"a": 1}, True]
    if isinstance(value, dict):
        return [*others, *({**value, key: shape} for key, each in value.items() for shape in shapes(each))]
    if isinstance(value, list):
        within = [[*value[:at], shape, *value[at + 1 :]] for at, each in enumerate(value) for shape in shapes(each)]
        return [*others, *within]
    return others


def test_no_value_of_another_kind_is_a_crash(tmp_path: Path) -> None:
    read = 0
    for shape in shapes(json.loads(render(a_build()))):
        try:
            parse(json.dumps(shape).encode(), tmp_path / FILE)
            read += 1
        except ConfigError:
            pass
    assert read > 10  # a note or a parameter may be of any kind


def test_fields_of_a_later_version_are_passed_over(tmp_path: Path) -> None:
    document = json.loads(render(a_build()))
    document["later"] = 1
    document["predicate"]["later"] = {"a": 1}
    document["predicate"]["runDetails"]["metadata"]["later"] = [1]
    assert parse(json.dumps(document).encode(), tmp_path / FILE) == parse(render(a_build()), tmp_path / FILE)


def test_a_file_that_is_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"provenance\.json cannot be read: No such file or directory"):
        read_provenance(tmp_path / FILE)


def test_a_file_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / FILE).open("wb") as out:
        out.truncate((64 << 20) + 1)
    with pytest.raises(ConfigError, match="it is larger than 64 MiB"):
        read_provenance(tmp_path / FILE)


def test_without_in_toto_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content, real = render(a_build()), builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("in_toto"):
            raise ModuleNotFoundError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    for call in (lambda: render(a_build()), lambda: parse(content, tmp_path)):
        with pytest.raises(MissingError) as caught:
            call()
        assert caught.value.render() == (
            "error: in-toto-attestation is not installed\n\nhint: pip install 'patchstack[build]'"
        )
