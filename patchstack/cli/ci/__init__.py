"""Implement `patchstack ci`: the steps of the GitHub Action, whose YAML and shell contain no logic."""
