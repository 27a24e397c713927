"""This machine's tools, and what `patchstack doctor` says about them."""
