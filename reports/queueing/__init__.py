"""Predicts how explorers and a learner around one buffer scale, from their speeds with one and two explorers."""
