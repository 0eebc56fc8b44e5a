"""Buffers that choose rows differently: in reverse, by episode, with hindsight goals, or from a large batch."""
