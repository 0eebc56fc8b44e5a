"""Tests of Ape-X as a program. They need PyTorch, so `make test-apex-dqn` runs them in its venv."""
