"""Read the hardware, tools and activity of the machine on which builds and gates run."""
