"""Keys for signatures, and lists of allowed signers, with the real ssh-keygen."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from patchstack.evidence.signing import NAMESPACE, Signers


def need_ssh_keygen() -> None:
    """Skip if ssh-keygen is not installed."""
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen is not installed here")


def a_key(directory: Path, name: str) -> Path:
    """Return a new private key without a passphrase; the public key is next to it."""
    need_ssh_keygen()
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(path)],
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    return path


def allowed(*keys: Path, options: str = f'namespaces="{NAMESPACE}"') -> Signers:
    """Return the list of these keys, each by the name of its file at example.com."""
    lines = [f"{key.name}@example.com {options} {key.with_suffix('.pub').read_text()}" for key in keys]
    return Signers(content="".join(lines).encode(), where="the list")
