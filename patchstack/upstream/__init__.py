"""What upstream does to a series: which patches still apply, which commit broke one, and the way to a new pin."""
