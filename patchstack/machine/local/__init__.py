"""The tools of this machine, and the checks of `patchstack doctor`."""
