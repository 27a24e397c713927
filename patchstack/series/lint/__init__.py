"""Rules for patches that apply, one module a rule, and the runner that applies waivers."""
