"""Shared parts of tables: cells, the marks beside them, and the reasons for missing figures."""
