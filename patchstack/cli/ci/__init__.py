"""`patchstack ci`: what continuous integration asks, so that its YAML and shell decide nothing."""
