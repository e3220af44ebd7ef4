"""Tests with real servers and clients, which the extras are for."""
