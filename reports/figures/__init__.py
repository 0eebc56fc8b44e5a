"""Figures from records: jobs, statistics, ratios, ranks, numbers as text. Imports `results` alone."""
