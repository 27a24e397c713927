"""Run the programs of a build and keep observations of them. Independent of verdicts, gates and llama.cpp."""
