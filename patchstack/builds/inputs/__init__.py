"""What a build is made from, resolved before work starts: source, variant, toolchain, build key."""
