"""The optional Python packages that a build needs after it compiled: asked for before it starts."""

from __future__ import annotations

import importlib.util

from patchstack.errors import MissingError
from patchstack.installed import install_hint

PROVING = {"in_toto_attestation": "in-toto-attestation", "elftools": "pyelftools"}
"""The modules that proofs and provenance need, with the packages that have them."""


def require_packages() -> None:
    """Raise `MissingError`, with every package named, if what proves and records a build is not installed."""
    missing = [package for module, package in PROVING.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise MissingError(f"a build needs {' and '.join(missing)}, not installed here", hint=install_hint("build"))
