"""Where jobs run. `protocol` says what an engine is; everything that runs jobs knows only that."""
