"""The series: its files, its lock, and the proof that pin + series = fork."""
