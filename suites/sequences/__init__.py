"""The sequences suite: sampling sequences of consecutive steps."""
