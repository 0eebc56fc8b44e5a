"""Training runs of other libraries with their own replay buffer and with ours."""
