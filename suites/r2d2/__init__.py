"""R2D2 as a small program that learns from sequences of a shared buffer (`make r2d2`)."""
