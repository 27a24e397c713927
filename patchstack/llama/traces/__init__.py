"""Read the traces that llama.cpp, this series and the notebook's forks print: their formats, counting a log in one
pass, consistency checks, and expectations. Gates and `trace` both use it, and neither imports the other. Opens no file
and gives no verdict."""
