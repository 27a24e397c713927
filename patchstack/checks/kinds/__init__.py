"""Kinds of checks, one module each: settings, and a function that judges the files of a tree."""
