"""One gate alone, without a workspace: a file a kind."""
