"""The layout of transitions, and the checks of a constructor's arguments."""
