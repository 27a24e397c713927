"""The kinds of checks. Each module has the settings of one kind, and a function that judges the files of a tree."""
