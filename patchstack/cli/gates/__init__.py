"""Commands that run one gate without a workspace, one module a kind."""
