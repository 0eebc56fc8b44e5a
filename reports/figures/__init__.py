"""What is said of one record or of two: jobs, statistics, ratios, ranks, numbers as text. Imports `results` alone."""
