"""Sign decisions and check their signatures with `ssh-keygen -Y`, as git does for commits.

A signature covers the canonical content of a decision. The content contains the digest of every record, and each record
contains the digests of its outputs. The content also names the upstream, pin, series and commits, so a signature from a
different repository does not match. The signature namespace is specific to patchstack, so the signature of a commit
does not count as the signature of a decision.

A signature is stored next to its decision as `ID.DIGEST.sig`, so several people can sign one decision.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from patchstack.causes import ProgramMissing, SigningRefused
from patchstack.errors import MissingError
from patchstack.evidence.ledger import Decision
from patchstack.files.atomic import replace_file
from patchstack.process import Finished, clean_environment, run

NAMESPACE = "patchstack-decision"
_PROGRAM = "ssh-keygen"
_LARGEST = 64 << 10  # maximum size of a signature in bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Signers:
    """A list of allowed signers.

    `content` is in the format of `ssh-keygen` (see ALLOWED SIGNERS in its manual). `where` describes the source of the
    list.
    """

    content: bytes
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A signature of a decision.

    `problem` is the reason why the signature does not count, or None if it counts. `by` is the signer's name in the
    list of allowed signers. It is empty if the signer is unknown. `broken` is true if the file is not a valid signature
    of this decision, or if the time of the decision is invalid. It is false if the signature is valid, but its signer
    is unknown or not allowed.
    """

    path: Path
    by: str = ""
    problem: str | None = None
    broken: bool = False

    @property
    def counts(self) -> bool:
        """Whether the signature is valid and comes from an allowed signer."""
        return self.problem is None


def sign(decision: Decision, directory: Path, key: Path) -> Path:
    """Sign a decision, and return the signature file.

    `key` is a private key file, or a public key file whose private key is in ssh-agent.

    Raises `UsageError` for a decision of format 1 and for a key that cannot sign. Raises `MissingError` if ssh-keygen
    is not installed.
    """
    if decision.format < 2:
        raise SigningRefused(
            f"decision {decision.id[:12]} cannot be signed: format 1 does not contain the digests of the evidence",
            hint="run 'patchstack accept COMMIT' to make a new decision in format 2",
        )
    if not key.is_file():
        raise SigningRefused(f"key {key} does not exist", hint=f"run 'ssh-keygen -t ed25519 -f {key}' to create it")
    done = _ssh_keygen("sign", "-f", str(key.absolute()), "-n", NAMESPACE, stdin=decision.content)
    if not done.ok or not done.stdout.startswith(b"-----BEGIN SSH SIGNATURE-----"):
        told = done.complaint.splitlines()[-1] if done.complaint else f"ssh-keygen exits with {done.code}"
        raise SigningRefused(
            f"{key} cannot sign: {told}", hint=f"if the key has a passphrase, run 'ssh-add {key}' first"
        )
    path = directory / f"{decision.id}.{hashlib.sha256(done.stdout).hexdigest()[:16]}.sig"
    replace_file(path, done.stdout)
    return path


def signatures(decision: Decision, directory: Path, signers: Signers | None) -> tuple[Signature, ...]:
    """Return the signatures of a decision, checked against its content and the list of signers.

    Without a list, no signature counts. As for git commits, a key must have been valid when the decision was made. A
    signature still counts if its key expired later.

    Raises `MissingError` if a signature exists and ssh-keygen is not installed.
    """
    pattern = re.compile(rf"{decision.id}\.[0-9a-f]{{16}}\.sig\Z")
    paths = sorted(path for path in directory.glob("*.sig") if pattern.match(path.name))
    return tuple(_checked(path, decision, signers) for path in paths)


def strays(directory: Path, known: Iterator[str]) -> tuple[Path, ...]:
    """Return the signature files for decisions whose ids are not in `known`."""
    ids = set(known)
    found = sorted(directory.glob("*.sig")) if directory.is_dir() else []
    return tuple(path for path in found if path.name.partition(".")[0] not in ids)


def _checked(path: Path, decision: Decision, signers: Signers | None) -> Signature:
    try:
        if path.stat().st_size > _LARGEST:
            return Signature(path=path, problem="it is too large for a signature", broken=True)
    except OSError as error:
        return Signature(path=path, problem=f"it cannot be read: {error.strerror}", broken=True)
    signature = str(path.absolute())
    done = _ssh_keygen("check-novalidate", "-n", NAMESPACE, "-s", signature, stdin=decision.content)
    if not done.ok:
        return Signature(path=path, problem="it is not a valid patchstack signature of this decision", broken=True)
    if signers is None:
        return Signature(path=path, problem="no list of allowed signers was given")
    when = _verify_time(decision.made)
    if when is None:
        return Signature(path=path, problem="the time of the decision is invalid", broken=True)
    with tempfile.TemporaryDirectory(prefix="patchstack-") as directory:
        listed = Path(directory) / "allowed_signers"
        listed.write_bytes(signers.content)
        common = ("-f", str(listed), "-s", signature, f"-Overify-time={when}")
        found = _ssh_keygen("find-principals", *common)
        names = [one for one in re.split(r"[,\n]", found.stdout.decode("utf-8", "replace")) if one.strip()]
        if not found.ok or not names:
            return Signature(path=path, problem=f"its key is not in {signers.where}, or was not valid on {when[:8]}")
        for name in names:
            done = _ssh_keygen("verify", *common, "-I", name, "-n", NAMESPACE, stdin=decision.content)
            if done.ok:
                return Signature(path=path, by=name)
    return Signature(path=path, by=names[0], problem=f"{signers.where} does not let {names[0]} sign decisions")


def _verify_time(made: str) -> str | None:
    try:
        return datetime.fromisoformat(made).astimezone(UTC).strftime("%Y%m%d%H%M%S")
    except ValueError:
        return None


def _ssh_keygen(what: str, *args: str, stdin: bytes = b"") -> Finished:
    environment = clean_environment({"TZ": "UTC"}, network=True)
    try:
        return run([_PROGRAM, "-Y", what, *args], env=environment, stdin=stdin, timeout=60)
    except MissingError as error:
        raise ProgramMissing(
            "cannot sign or check signatures: ssh-keygen is not installed",
            hint="run 'apt install openssh-client' (OpenSSH 8.9 or newer)",
        ) from error
