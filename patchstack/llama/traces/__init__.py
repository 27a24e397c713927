"""Read the traces that llama.cpp, this series and the notebook's forks print. The package has their formats, counts the
records of a log in one pass, checks their consistency, and evaluates expectations. Gates and `trace` both use it, and
neither imports the other. It opens no file and gives no verdict."""
