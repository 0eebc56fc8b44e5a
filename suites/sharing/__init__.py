"""Sharing: what a buffer that many processes use costs them."""
