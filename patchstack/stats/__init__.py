"""Statistics of comparisons by coin-ordered pairs: numbers in, numbers out. Knows no programs, machines or files."""
