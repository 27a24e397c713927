"""What a patch promises of the source, looked at on any tree: kinds of checks, and what runs them."""
