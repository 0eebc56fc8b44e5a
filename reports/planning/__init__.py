"""Predicts which host or link saturates first when Ape-X runs on several hosts, from measurements of the hosts
suite."""
