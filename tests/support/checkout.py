"""The paths of this checkout and of the tests' data, for tests in any folder."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""
DATA = ROOT / "tests" / "data"
"""Outputs of real programs, and other files that tests read."""
