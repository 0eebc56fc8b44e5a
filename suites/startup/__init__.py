"""Start-up: what a user waits for before the first batch."""
