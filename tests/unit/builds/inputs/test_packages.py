"""Packages that a build needs only after compiling are checked before it starts."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from patchstack.builds.record.store import Store
from patchstack.builds.run import build as building
from patchstack.builds.run.build import require_packages
from patchstack.errors import Exit, MissingError
from patchstack.installed import install_hint


def without(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in modules else real(name))


def test_every_missing_package_is_named_with_the_extra_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    require_packages()
    without(monkeypatch, "in_toto_attestation", "elftools")
    with pytest.raises(MissingError) as refused:
        require_packages()
    assert refused.value.exit_code is Exit.MISSING
    assert refused.value.render() == (
        "error: a build needs packages that are not installed: in-toto-attestation, pyelftools\n\n"
        f"hint: {install_hint('build')}"
    )


@pytest.mark.parametrize("module", ["in_toto_attestation", "elftools"])
def test_a_build_without_its_packages_ends_before_the_engine_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    without(monkeypatch, module)
    inputs: Any = SimpleNamespace(key=SimpleNamespace(hex="ab" * 32, short="ab" * 6), plan=SimpleNamespace(cuda=False))
    nothing: Any = None
    with pytest.raises(MissingError, match="packages that are not installed"):
        building.build(inputs, nothing, Store(tmp_path / "builds"), nothing)
    assert not (tmp_path / "builds").exists()


def test_a_build_for_gpus_says_before_it_starts_that_no_cuobjdump_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(building, "find_cuobjdump", lambda: None)
    inputs: Any = SimpleNamespace(
        key=SimpleNamespace(hex="ab" * 32, short="ab" * 6),
        plan=SimpleNamespace(cuda=True, engine=SimpleNamespace(isolated=False)),
        toolchain=None,
    )
    watch: Any = SimpleNamespace(talk=said.append)

    def begun(*_: object, **__: object) -> None:
        raise MissingError("begun")

    monkeypatch.setattr(building, "open_session", begun)
    nothing: Any = None
    with pytest.raises(MissingError, match="begun"):
        building.build(inputs, nothing, Store(tmp_path), watch)
    assert said == [
        "cuobjdump is not installed. If the build's CUDA toolkit lacks it too, the proofs of GPU code are INVALID "
        f"({install_hint('cuda')})"
    ]
