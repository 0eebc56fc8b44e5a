"""What a transition looks like, and the checks of a constructor's arguments."""
