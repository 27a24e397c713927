"""Accept or reject a commit of the fork."""
