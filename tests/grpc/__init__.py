"""Tests that need the extra `grpc`, and some the command too."""
