"""Find the patch or upstream commit that makes a command fail."""
