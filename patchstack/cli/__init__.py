"""The command line, one module a command: parse, call one function, render. Nothing imports cli."""
