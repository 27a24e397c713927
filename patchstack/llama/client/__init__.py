"""The client that measures a server from beside it. Standard library alone: it runs as one zipapp anywhere.

It sends requests at planned times, stamps what comes, and reads it afterwards. It draws no verdicts.
"""
