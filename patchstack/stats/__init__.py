"""Statistics for comparisons by pairs in random order. Pure functions of numbers, without programs, machines or
files."""
