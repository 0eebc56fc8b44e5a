"""Memory: how many bytes one more transition takes."""
