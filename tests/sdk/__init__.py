"""Tests that need the SDK."""
