"""Measure a server with requests at planned times. The client uses only the standard library and runs as one zipapp.

It records when data arrives, and parses the answers after the run. It does not judge the results.
"""
