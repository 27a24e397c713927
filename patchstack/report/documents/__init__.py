"""The types of the JSON documents that commands print with `--json`, and their reader."""
