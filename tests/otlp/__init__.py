"""Tests of exporting over OTLP."""
