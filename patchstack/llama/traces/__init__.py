"""What llama.cpp, this series and the notebook's forks print of themselves: their formats, one pass over a log that
counts, what must add up in it, and expectations of it. Gates and `trace` both read logs, and neither imports the other:
so it lives below both. Opens no file and draws no verdict."""
