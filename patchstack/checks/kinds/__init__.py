"""The kinds of checks. Each module has the settings of one kind, and the function that judges the files of a tree."""
