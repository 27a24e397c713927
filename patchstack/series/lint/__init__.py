"""Rules for patches that apply, with one module for each rule, and the runner that applies waivers."""
