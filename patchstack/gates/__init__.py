"""Gates: checks that a build must pass, a kind a file. Each draws a verdict from what programs were seen to do."""
