"""Results as text for people and documents for programs. Draws, never decides."""
