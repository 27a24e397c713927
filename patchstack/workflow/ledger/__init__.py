"""Check the decisions in the repository: evidence, keys, verdicts, trees and signatures."""
