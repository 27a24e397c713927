"""Find the first real error in the output of compilers, and the patch that added the failing line."""
