"""Tests of Ape-X as a program. They need PyTorch, so `make test-training` runs them in its venv."""
