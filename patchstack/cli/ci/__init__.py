"""`patchstack ci`: the steps of the GitHub Action, so that its YAML and shell decide nothing."""
