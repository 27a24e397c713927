"""The client that measures a server. It uses only the standard library, and runs anywhere as one zipapp. It sends
requests at planned times, records the time of every piece that it receives, and parses the answers afterwards. It gives
no verdicts."""
