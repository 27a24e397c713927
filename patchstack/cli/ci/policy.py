"""Find the source of the policy.

For a pull request, the source is the commit into which the pull request will be merged.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from patchstack.causes import NotFetchable
from patchstack.git import run as git

if TYPE_CHECKING:
    from patchstack.cli.ci.inputs import Event, Inputs


def policy_source(inputs: Inputs, event: Event, root: Path) -> str:
    """Return the source of the policy.

    The input `policy_from` has priority over the base of the pull request. An empty source means the checkout.

    Raises `MissingError` if the base was not fetched, because a check without a known policy must not pass.
    """
    if inputs.policy_from or not event.pull_request:
        return inputs.policy_from
    if event.base and git.read(root, "cat-file", "-e", f"{event.base}^{{commit}}").ok:
        return event.base
    # A pull request is checked out as its merge into the base, so the first parent of HEAD is the base.
    merged = git.read(root, "rev-parse", "--verify", "--quiet", "HEAD^2")
    first = git.read(root, "rev-parse", "--verify", "--quiet", "HEAD^1")
    if not (merged.ok and first.ok):
        raise NotFetchable(
            "the base commit of this pull request is not available",
            hint="check out with fetch-depth: 2, or set the input policy-from",
        )
    return first.stdout.decode("ascii").strip()
