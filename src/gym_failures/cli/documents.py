"""A report as a JSON object; docs/reference/command.md describes it, and other programs rely on it."""

import json
from collections.abc import Sequence

from gym_failures.cli.times import instant
from gym_failures.reading import By, RebuiltReport


def report_line(rebuilt: RebuiltReport, by: By) -> str:
    """Return one report as JSON in one line."""
    return json.dumps(_document(rebuilt, by), separators=(",", ":"))


def reports_document(
    shown: Sequence[RebuiltReport], by: By, *, failed: int, recovered: int, spans: int, skipped: int
) -> str:
    """Return the reports that are shown, and the counts of all that were asked for and read, as one JSON document."""
    reports = [_document(rebuilt, by) for rebuilt in shown]
    counts = {"failed": failed, "recovered": recovered, "spans": spans, "skipped": skipped}
    return json.dumps({"by": by, "reports": reports, **counts}, indent=2)


def _document(rebuilt: RebuiltReport, by: By) -> dict[str, object]:
    span, root = rebuilt.span, rebuilt.root
    return {
        "by": by,
        "key": rebuilt.key,
        "trace_id": rebuilt.trace_id,
        "failed": rebuilt.failed,
        "kind": None if root is None else root.failure_kind,
        "boundary": None if root is None else root.boundary.value,
        "chain": [event.event_id for event in reversed(rebuilt.chain)],
        "report": rebuilt.report.model_dump(mode="json"),
        "times": {event_id: instant(time_ns) for event_id, time_ns in rebuilt.times.items()},
        "services": dict(rebuilt.services),
        "span": {
            "span_id": span.span_id,
            "name": span.name,
            "service": span.service,
            "start": instant(span.start_ns),
            "end": instant(span.end_ns),
        },
        "recovered": rebuilt.recovered,
        "unlinked": rebuilt.unlinked,
        "late": rebuilt.late,
        "unseen": rebuilt.unseen,
        "remote_only": rebuilt.remote_only,
        "cut": rebuilt.cut,
        "missing_causes": rebuilt.missing_causes,
        "circular_causes": rebuilt.circular_causes,
        "dropped_events": rebuilt.dropped_events,
        "unreadable": rebuilt.unreadable,
    }
