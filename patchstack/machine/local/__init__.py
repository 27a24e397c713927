"""This machine: its facts, its compilers."""
