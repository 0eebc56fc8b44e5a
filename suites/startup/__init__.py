"""Start-up: how long a user waits for the first batch."""
