"""Predicts which host or link of an Ape-X over several hosts saturates first, from what the hosts suite measured."""
