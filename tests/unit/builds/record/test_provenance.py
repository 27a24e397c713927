"""provenance.json: its contents, and refused inputs."""

from __future__ import annotations

import builtins
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from in_toto_attestation.predicates.provenance.v1.provenance_pb2 import Provenance as Predicate
from in_toto_attestation.v1.statement import Statement
from in_toto_attestation.v1.statement_pb2 import Statement as Message

import patchstack
from patchstack.builds.record.provenance import (
    BUILD_TYPE,
    FILE,
    Provenance,
    Resource,
    Subject,
    file,
    image,
    pin,
    public_url,
    render,
    write_statement,
)
from patchstack.errors import MissingError, UsageError
from patchstack.installed import install_hint
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


def test_in_totos_own_reader_takes_it() -> None:
    """The reader knows every field, and its own checks hold."""
    statement = Statement.copy_from_pb(ParseDict(json.loads(render(a_build())), Message()))
    statement.validate()
    predicate = ParseDict(MessageToDict(statement.pb.predicate), Predicate())
    build, run = predicate.build_definition, predicate.run_details
    assert {one.name: one.digest["sha256"] for one in statement.pb.subject} == {
        one.name: one.sha256 for one in a_build().subjects
    }
    for read, written in ((build.resolved_dependencies, a_build().materials), (run.byproducts, a_build().byproducts)):
        assert [(one.name, one.uri, dict(one.digest), MessageToDict(one.annotations)) for one in read] == [
            (one.name, one.uri, one.digest, one.notes) for one in written
        ]
    external = {**a_build().external, "targets": ["llama-completion"]}
    assert MessageToDict(build.external_parameters) == external
    assert MessageToDict(build.internal_parameters) == a_build().internal
    assert run.metadata.started_on.ToDatetime(tzinfo=UTC) == STARTED
    assert run.metadata.finished_on.ToDatetime(tzinfo=UTC) == a_build().finished
    assert (run.metadata.invocation_id, run.builder.id) == (KEY, a_build().builder)
    assert dict(run.builder.version) == a_build().versions


def test_times_of_any_zone_are_written_in_utc() -> None:
    local = STARTED.astimezone(timezone(timedelta(hours=2)))
    assert render(replace(a_build(), started=local)) == render(a_build())


def test_a_statement_is_written_over_an_old_one(tmp_path: Path) -> None:
    path = tmp_path / FILE
    path.write_text("an old one")
    write_statement(path, a_build())
    assert path.read_bytes() == render(a_build())
    assert [each.name for each in tmp_path.iterdir()] == [FILE]
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    (tmp_path / FILE / "x").touch()
    with pytest.raises(MissingError, match=r"provenance\.json cannot be written: Is a directory"):
        write_statement(tmp_path / FILE, a_build())
    assert [each.name for each in tmp_path.iterdir()] == [FILE]
    with pytest.raises(MissingError, match=r"none/provenance\.json cannot be written: No such file or directory"):
        write_statement(tmp_path / "none" / FILE, a_build())


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
        ({"subjects": (Subject(name="a", sha256="short"),)}, "a: 'short' is not a valid sha256 digest"),
        ({"subjects": (Subject(name="", sha256="a" * 64),)}, "a subject has no name"),
        ({"subjects": (Subject(name="a", sha256="a" * 64),) * 2}, "two subjects have the name a"),
        ({"materials": (pin("c" * 39),)}, f"pin: '{'c' * 39}' is not a valid gitCommit digest"),
        ({"materials": (image("a", "sha512:1"),)}, "image: 'sha512:1' is not a valid sha256 digest"),
        ({"materials": (Resource(name=""),)}, "At least one of name, URI, or digest need to be set"),
        ({"key": "abc"}, "the build key: 'abc' is not a valid sha256 digest"),
        ({"external": {}}, "it has no external parameters"),
        ({"started": STARTED.replace(tzinfo=None)}, "2026-06-28T10:00:00.250000 has no time zone"),
    ],
)
def test_what_would_be_no_valid_statement_is_not_written(change: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        render(replace(a_build(), **change))
    assert caught.value.message == f"the provenance of this build cannot be written: {words}"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"bytes"])
def test_a_parameter_that_json_has_no_word_for_is_not_written(value: Any) -> None:
    with pytest.raises(UsageError, match="the provenance of this build cannot be written: "):
        render(replace(a_build(), external={"value": value}))


def test_without_in_toto_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("in_toto"):
            raise ModuleNotFoundError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingError) as caught:
        render(a_build())
    assert caught.value.render() == (f"error: in-toto-attestation is not installed\n\nhint: {install_hint('build')}")
