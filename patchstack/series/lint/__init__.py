"""Rules for patches. Each rule has a module, and the runner applies waivers."""
