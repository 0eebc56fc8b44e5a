"""Decides whether one revision is slower than another: pairs, evidence, rules, verdict."""
