"""Where this checkout and the data of the tests are, whatever folder a test is in."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""
DATA = ROOT / "tests" / "data"
"""Outputs of real programs, and other files that tests read."""
