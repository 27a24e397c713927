"""Implement the command line, with one module for each command.

A command parses its options, calls one function, and renders the result. No other package imports `cli`.
"""
