"""Show how upstream's changes affect a series. This package does not change the series."""
