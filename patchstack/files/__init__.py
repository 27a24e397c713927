"""Files and processes of this machine: atomic replacement, locks, journals, `/proc`. Knows no git and no patches."""
