"""No text of a failure costs an export batch."""

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from gym_failures.errors import FailureError
from gym_failures.recording import record_failure
from gym_failures.testing import Telemetry


@pytest.mark.parametrize(
    "text",
    ["a\ud800b", "\udfff", "nul\x00nul", "ok 深 🙂", b"\xff\xfe".decode("utf-8", "surrogateescape")],
    ids=["high surrogate", "low surrogate", "NUL", "legal", "escaped bytes"],
)
def test_any_text_exports_with_its_neighbours(text: str) -> None:
    """A failure with broken Unicode in any text exports as protobuf, and so do the spans next to it (mlflow#24123)."""
    with Telemetry() as telemetry:
        with telemetry.span("good"):
            pass
        with telemetry.span("bad"):
            record_failure(
                FailureError("odd\ud800kind", boundary="agent", reason=text, operation=text, exception_type=text)
            )
        batch = encode_spans(telemetry.spans()).SerializeToString()
    found = telemetry.only_event()
    assert b"good" in batch
    assert found["failure.reason"].encode() in batch
    expected = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert found["failure.reason"] == found["failure.operation"] == expected
    assert found["failure.kind"] == "odd\ufffdkind"
