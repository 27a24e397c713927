"""Lock a GPU, check that a machine is ready for measurements, and find other users of the GPU."""
