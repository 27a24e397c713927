"""Check what the repository carries of its decisions: evidence, keys, verdicts, trees and signatures."""
