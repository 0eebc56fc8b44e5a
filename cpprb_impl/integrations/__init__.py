"""The code that the buffers for other libraries share."""
