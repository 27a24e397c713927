"""Signatures of decisions: with the real ssh-keygen, compared with a list of allowed signers."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from pathlib import Path

import pytest

from patchstack.errors import MissingError, UsageError
from patchstack.evidence.ledger import Ledger
from patchstack.evidence.signing import NAMESPACE, Signers, sign, signatures, strays
from tests.support.ssh_keys import a_key, allowed, need_ssh_keygen
from tests.unit.evidence.test_ledger import a_decision

MADE = "2026-07-01T10:00:00+00:00"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    need_ssh_keygen()
    found = Ledger(tmp_path / "ledger")
    found.write(a_decision(made=MADE))
    return found


def test_a_signature_of_an_allowed_signer_counts(ledger: Ledger, tmp_path: Path) -> None:
    (decision,) = ledger.read()
    key = a_key(tmp_path, "ada")
    path = sign(decision, ledger.directory, key)
    assert path.name.startswith(f"{decision.id}.")
    (found,) = signatures(decision, ledger.directory, allowed(key))
    assert (found.counts, found.by) == (True, "ada@example.com")
    assert sign(decision, ledger.directory, key) == path, "the same key signs once"
    assert ledger.read() == (decision,), "a signature is not a decision"


def test_two_signers_each_count_for_themselves(ledger: Ledger, tmp_path: Path) -> None:
    (decision,) = ledger.read()
    ada, bob = a_key(tmp_path, "ada"), a_key(tmp_path, "bob")
    for key in (ada, bob):
        sign(decision, ledger.directory, key)

    def by(signers: Signers) -> list[str]:
        return sorted(one.by for one in signatures(decision, ledger.directory, signers) if one.counts)

    assert by(allowed(ada, bob)) == ["ada@example.com", "bob@example.com"]
    assert by(allowed(bob)) == ["bob@example.com"]
    problems = [one.problem for one in signatures(decision, ledger.directory, allowed(bob)) if not one.counts]
    assert problems == ["its key is not in the list, or was not valid on 20260701"]


def test_a_key_that_had_expired_does_not_count_and_one_that_expired_later_does(ledger: Ledger, tmp_path: Path) -> None:
    (decision,) = ledger.read()
    key = a_key(tmp_path, "ada")
    sign(decision, ledger.directory, key)

    def counts(options: str) -> bool:
        (found,) = signatures(decision, ledger.directory, allowed(key, options=options))
        assert not found.broken
        return found.counts

    assert not counts('valid-before="20260630"')
    assert counts('valid-before="20260702"')
    assert not counts('valid-after="20260702"')
    assert counts('valid-after="20260630"')


def test_a_signature_in_another_namespace_is_none(ledger: Ledger, tmp_path: Path) -> None:
    (decision,) = ledger.read()
    key = a_key(tmp_path, "ada")
    done = subprocess.run(
        ["ssh-keygen", "-Y", "sign", "-f", str(key), "-n", "git"],
        input=decision.content,
        check=True,
        capture_output=True,
    )
    (ledger.directory / f"{decision.id}.{'0' * 16}.sig").write_bytes(done.stdout)
    (found,) = signatures(decision, ledger.directory, allowed(key))
    assert found.broken
    assert found.problem == "it is not a valid patchstack signature of this decision"


def test_a_signer_who_may_sign_other_things_only_does_not_count(ledger: Ledger, tmp_path: Path) -> None:
    (decision,) = ledger.read()
    key = a_key(tmp_path, "ada")
    sign(decision, ledger.directory, key)
    (found,) = signatures(decision, ledger.directory, allowed(key, options='namespaces="git"'))
    assert (found.counts, found.broken) == (False, False)


def test_a_signature_of_another_repository_says_nothing_here(ledger: Ledger, tmp_path: Path) -> None:
    (decision,) = ledger.read()
    key = a_key(tmp_path, "ada")
    theirs = dataclasses.replace(decision, evidence={"upstream": "https://example.com/another"})
    path = sign(theirs, tmp_path, key)
    shutil.copy(path, ledger.directory / path.name.replace(theirs.id, decision.id))
    (found,) = signatures(decision, ledger.directory, allowed(key))
    assert found.broken, "the content names the repository, and is what is signed"
    shutil.copy(path, ledger.directory)
    assert [one.name for one in strays(ledger.directory, iter([decision.id]))] == [path.name]


@pytest.mark.parametrize("content", [b"", b"nonsense\n", b"\0" * 100, b"x" * 100_000])
def test_what_is_no_signature_is_told(ledger: Ledger, tmp_path: Path, content: bytes) -> None:
    (decision,) = ledger.read()
    (ledger.directory / f"{decision.id}.{'0' * 16}.sig").write_bytes(content)
    (found,) = signatures(decision, ledger.directory, allowed(a_key(tmp_path, "ada")))
    assert found.broken


def test_without_a_list_no_signature_counts(ledger: Ledger, tmp_path: Path) -> None:
    (decision,) = ledger.read()
    sign(decision, ledger.directory, a_key(tmp_path, "ada"))
    (found,) = signatures(decision, ledger.directory, None)
    assert (found.counts, found.problem) == (False, "no list of allowed signers was given")


def test_without_ssh_keygen_a_signature_cannot_be_made_or_checked(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (decision,) = ledger.read()
    key = a_key(tmp_path, "ada")
    sign(decision, ledger.directory, key)
    listed = allowed(key)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match="ssh-keygen is not installed") as error:
        signatures(decision, ledger.directory, listed)
    assert "openssh-client" in (error.value.hint or "")
    with pytest.raises(MissingError, match="ssh-keygen is not installed"):
        sign(decision, ledger.directory, key)


def test_a_key_that_does_not_sign_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    (decision,) = ledger.read()
    with pytest.raises(UsageError, match="does not exist"):
        sign(decision, ledger.directory, tmp_path / "none")
    (tmp_path / "text").write_text("no key\n")
    with pytest.raises(UsageError, match="cannot sign: "):
        sign(decision, ledger.directory, tmp_path / "text")
    locked = tmp_path / "locked"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret words", "-f", str(locked)], check=True, capture_output=True
    )
    with pytest.raises(UsageError, match="cannot sign: ") as error:
        sign(decision, ledger.directory, locked)
    assert error.value.hint == f"if the key has a passphrase, run 'ssh-add {locked}' first"


def test_a_decision_of_format_1_is_not_signed(ledger: Ledger, tmp_path: Path) -> None:
    old = a_decision(format=1)
    with pytest.raises(UsageError, match="cannot be signed: format 1 does not contain the digests of the evidence"):
        sign(old, ledger.directory, a_key(tmp_path, "ada"))


def test_the_namespace_is_our_own() -> None:
    assert NAMESPACE not in ("git", "file")
