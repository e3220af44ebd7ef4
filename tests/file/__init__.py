"""Files that OpenTelemetry's own exporter writes, with the extras `file`, `sdk` and `reading`."""
