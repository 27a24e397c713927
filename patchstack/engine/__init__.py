"""The engines that run jobs. Other packages use them only through the interface in `protocol`."""
