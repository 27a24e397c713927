"""Read, check and write a series of patches, with its files, its lock and its fork."""
