"""Find the list of allowed signers, on a protected branch or in a file outside the checked tree.

The author of a pull request controls every file in the checked tree, so a list in this tree never counts.
"""

from __future__ import annotations

from pathlib import Path

from patchstack.causes import SignersMissing, SignersUnusable
from patchstack.evidence.signing import Signers
from patchstack.git import run as git

DEFAULT = "ledger/allowed_signers"
_HINT = f"use --signers FILE, or --signers REF to read {DEFAULT} from a branch"


def find_signers(given: str, root: Path) -> Signers:
    """Return the list of allowed signers that `given` names.

    `given` is a file outside the repository of `root`, or a `REF` or `REF:PATH` in that repository.

    Raises `UsageError` for a list in the checked tree, and `MissingError` for a list that does not exist.
    """
    path = Path(given).expanduser()
    place = root.resolve()
    top = next((one for one in (place, *place.parents) if (one / ".git").exists()), None)
    if path.is_file():
        if path.resolve().is_relative_to(top or place):
            raise SignersUnusable(
                f"{given} is in the checked tree: its author could change the list as well",
                hint=f"name a ref that others cannot push to: --signers origin/main reads {DEFAULT} from it",
            )
        return Signers(content=path.read_bytes(), where=given)
    ref, _, name = given.partition(":")
    if top is None:
        raise SignersMissing(f"there is no file {given}, and {root} is not in a git repository")
    if ref.startswith("-"):
        raise SignersMissing(f"{given} is neither a file nor a ref", hint=_HINT)
    if _is_checked_out(top, ref):
        raise SignersUnusable(
            f"{ref} is checked out here, so its list is in the checked tree",
            hint="name the protected branch of the remote: --signers origin/main",
        )
    name = name or (place / DEFAULT).relative_to(top).as_posix()
    found = git.read(top, "cat-file", "blob", f"{ref}:{name}")
    if not found.ok:
        raise SignersMissing(
            f"there is no list of allowed signers {given}: {git.first_complaint(found)}",
            hint=_HINT,
        )
    return Signers(content=found.stdout, where=f"{name} of {ref}")


def _is_checked_out(top: Path, ref: str) -> bool:
    """Return whether a ref names the checked-out commit: HEAD, or its branch."""
    if ref in ("", "@") or ref.upper().startswith(("HEAD", "@{")):
        return True
    head = git.read(top, "rev-parse", "--symbolic-full-name", "HEAD")
    named = git.read(top, "rev-parse", "--symbolic-full-name", "--verify", "--end-of-options", ref)
    return head.ok and named.ok and bool(named.stdout.strip()) and head.stdout == named.stdout
