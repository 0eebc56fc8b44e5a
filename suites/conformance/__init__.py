"""Conformance: does a peer do what it promises, and what every buffer must do?"""
