"""Requirements for tests that compare with quilt, GNU patch and dpkg-source."""

from __future__ import annotations

import shutil

import pytest

needs_quilt = pytest.mark.skipif(
    shutil.which("quilt") is None or shutil.which("patch") is None, reason="quilt and patch are not installed here"
)
needs_dpkg = pytest.mark.skipif(
    shutil.which("dpkg-source") is None or shutil.which("patch") is None,
    reason="dpkg-source and patch are not installed here",
)
