"""What a model must cost, by arithmetic: a header, a machine and numbers in; numbers out. Runs nothing."""
