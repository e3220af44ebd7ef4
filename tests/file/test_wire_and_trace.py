"""The same agreement of wire and trace through files of the official OTLP JSON exporter."""

import io

from hypothesis import given, settings
from opentelemetry.exporter.otlp.json.file.trace_exporter import FileSpanExporter
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from gym_failures.reading import read_reports
from gym_failures.testing import Telemetry
from tests import calltrees
from tests.agreement import assert_wire_and_trace_agree
from tests.strategies import server_trees


@settings(max_examples=100)
@given(server_trees())
def test_report_rebuilt_from_a_file_is_the_one_that_was_sent(tree: calltrees.Server) -> None:
    """For any call tree, the reports read from the exporter's file agree with those that the servers sent."""
    file = io.StringIO()
    with Telemetry() as telemetry:
        telemetry.tracer_provider.add_span_processor(SimpleSpanProcessor(FileSpanExporter(stream=file)))
        done = calltrees.run(tree, telemetry.tracer_provider, telemetry.recorder)
        rebuilt = read_reports(file.getvalue().encode(), by="request")
    assert rebuilt.skips == 0
    assert_wire_and_trace_agree(done.sent, rebuilt)
