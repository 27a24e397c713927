"""The JSON documents that commands print with `--json`, a type each, and the reader that gives them back."""
