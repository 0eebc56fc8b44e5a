"""Sharing: the cost of a buffer that many processes use."""
