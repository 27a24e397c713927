"""Simulate which part of a prompt a server reuses from request to request, and what alternatives would cost."""
