"""Forecast which patches upstream is likely to break next."""
