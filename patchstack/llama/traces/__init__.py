"""Read traces: count the records of a log, check their consistency, and evaluate expectations.

The traces are printed by llama.cpp, this series and the notebook's forks. Gates and the command `trace` use this
package, and do not import each other. The package opens no files and does not judge results.
"""
