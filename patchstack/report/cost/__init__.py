"""Show costs as documents, tables and pages."""
