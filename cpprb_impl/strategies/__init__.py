"""Buffers that choose rows in other ways: reversed, by episodes, with other goals, or from a large batch."""
