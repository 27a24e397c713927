"""The engines that run jobs. Code that runs jobs uses only the interface in `protocol`."""
