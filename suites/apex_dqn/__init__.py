"""Ape-X as a program that learns (`make apex`): a supervisor, explorers, a learner and an evaluator."""
