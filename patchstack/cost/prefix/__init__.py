"""What of a prompt a server reuses from request to request, simulated, and what other ways would cost."""
