"""Read the traces that llama.cpp, this series and the notebook's forks print. The package defines their formats, counts
the records of a log in one pass, checks their consistency, and evaluates expectations. Gates and `trace` both use the
package, and neither imports the other. The package opens no file and gives no verdict."""
