"""The inputs of a build, resolved before work starts: source, variant, toolchain, build key."""
