"""Tests of `collector-config/` against the real Jaeger, Collector and Prometheus; `make test-backends` runs them."""
