"""The series: its files, its lock, its fork."""
