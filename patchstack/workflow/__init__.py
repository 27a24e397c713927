"""What maintainers do from end to end. The only place where series, builds and gates meet."""
