"""Measure a server with requests that are sent at planned times.

The client uses only the standard library. It is packed into one zipapp file, so that it runs on any machine with Python
3.11 or newer. It records when data arrives, and parses the answers after the run. It does not judge the results.
"""
