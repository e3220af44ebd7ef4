"""Stored spans to failure reports.

    for failed in read_reports("traces.jsonl", by="request"):
        print(failed.trace_id, failed.report.failure_id, failed.missing_causes)

Text is OTLP JSON, which needs the extra `reading`; spans of the SDK need none.
"""

from gym_failures.reading.model import EventRecord, Skip, SpanKind, SpanLink, SpanRecord, SpanStatus, Tally
from gym_failures.reading.rebuild import By, rebuild
from gym_failures.reading.rebuilt import RebuiltReport
from gym_failures.reading.reports import Reports, StoredReports, iter_reports, read_files, read_reports
from gym_failures.reading.sdk import from_readable_span

__all__ = [
    "By",
    "EventRecord",
    "RebuiltReport",
    "Reports",
    "Skip",
    "SpanKind",
    "SpanLink",
    "SpanRecord",
    "SpanStatus",
    "StoredReports",
    "Tally",
    "from_readable_span",
    "iter_reports",
    "read_files",
    "read_reports",
    "rebuild",
]
