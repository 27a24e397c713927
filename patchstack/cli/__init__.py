"""The command line, with one module for each command: parse, call one function, render. Nothing imports cli."""
