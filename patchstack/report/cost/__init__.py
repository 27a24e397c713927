"""Costs as documents, tables and pages."""
