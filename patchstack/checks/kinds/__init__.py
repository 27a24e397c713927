"""The kinds of checks: their settings, and the functions that judge the files of a tree."""
