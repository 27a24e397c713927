"""Files as any part of patchstack uses them: what a killed process left, and what `/proc` says."""
