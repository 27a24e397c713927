"""Show how upstream's changes affect a series. This package only reads."""
