"""Check patches with rules. Each rule has its own module, and the runner applies waivers."""
