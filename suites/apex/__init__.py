"""Ape-X: explorer processes that fill a shared buffer while one learner samples it."""
