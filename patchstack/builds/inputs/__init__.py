"""What a build is made of: source, variant, toolchain, key."""
