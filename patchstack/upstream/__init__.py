"""Show how upstream's changes affect a series. Only reads."""
