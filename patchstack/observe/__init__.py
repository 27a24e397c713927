"""Run the programs of a build, and store observations of the runs. This package does not depend on verdicts, gates or
llama.cpp."""
