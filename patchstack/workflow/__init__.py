"""What maintainers do from end to end: the only place where mirror, build, gate and bench meet."""
