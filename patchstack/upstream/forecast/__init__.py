"""Which patches upstream will break next."""
