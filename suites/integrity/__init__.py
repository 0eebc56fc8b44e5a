"""Integrity: does a shared buffer return what was stored, while many processes use it?"""
