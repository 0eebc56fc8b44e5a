"""What a process knows of others: its host, forks, and a helper that tidies up after it."""
