"""Define and read the JSON documents that commands print with `--json`."""
