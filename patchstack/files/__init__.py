"""Files and processes of this machine: atomic replacement, locks, journals, `/proc`. Independent of git and patches."""
