"""Ape-X as a program that learns (`make apex`), and a suite that measures how long it needs."""
