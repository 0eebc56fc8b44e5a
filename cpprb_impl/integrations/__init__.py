"""What the buffers for other libraries share."""
