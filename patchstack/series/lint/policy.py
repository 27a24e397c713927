"""What a series asks of its patches, and what it forgives: the keys `lint` and `waive` of `patchstack.yaml`."""

from __future__ import annotations

from patchstack.workspace import SCRATCH as SCRATCH
from patchstack.workspace import LintPolicy as LintPolicy
from patchstack.workspace import Waiver as Waiver
