"""Logs that explain a run: read whole, checked, and compared; what each call reads and computes, by route, type, shape
and tensor. Draws verdicts of logs; runs nothing."""
