"""The inputs of a build, resolved before any work starts: source, variant, toolchain and build key."""
