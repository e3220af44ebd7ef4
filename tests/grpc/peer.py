"""A small server that answers by gRPC as Jaeger's API of version 3 does, or as no server should."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
from google.protobuf import text_format, timestamp_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, TracesData

SCHEMA = """
name: "jaeger.proto" package: "jaeger.api_v3" syntax: "proto3"
dependency: "google/protobuf/timestamp.proto"
message_type {
  name: "TraceQueryParameters"
  field { name: "service_name" number: 1 type: TYPE_STRING }
  field { name: "attributes" number: 3 label: LABEL_REPEATED
          type: TYPE_MESSAGE type_name: ".jaeger.api_v3.TraceQueryParameters.AttributesEntry" }
  field { name: "start_time_min" number: 4 type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp" }
  field { name: "start_time_max" number: 5 type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp" }
  field { name: "search_depth" number: 8 type: TYPE_INT32 }
  field { name: "raw_traces" number: 9 type: TYPE_BOOL }
  nested_type {
    name: "AttributesEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL }
  }
}
message_type {
  name: "FindTracesRequest"
  field { name: "query" number: 1 type: TYPE_MESSAGE type_name: ".jaeger.api_v3.TraceQueryParameters" }
}
message_type {
  name: "GetServicesResponse"
  field { name: "services" number: 1 type: TYPE_STRING label: LABEL_REPEATED }
}
"""
"""What is used of jaegertracing/jaeger-idl's `query_service.proto`."""

_POOL = DescriptorPool()
_POOL.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
_POOL.AddSerializedFile(text_format.Parse(SCHEMA, FileDescriptorProto()).SerializeToString())
Request, Services = (
    GetMessageClass(_POOL.FindMessageTypeByName(f"jaeger.api_v3.{name}"))
    for name in ("FindTracesRequest", "GetServicesResponse")
)


def trace(number, *, service="agent", event_id="f", kind="cancelled", start=None):
    """Return a trace of one server's span that failed `start` nanoseconds after the epoch; without an id, did not."""
    start = number if start is None else start
    told = {
        "failure.origin": "local",
        "failure.boundary": "agent",
        "failure.kind": kind,
        "failure.id": event_id,
    }
    failed = [Span.Event(name="gym.failure", time_unix_nano=start, attributes=_attributes(told))]
    span = Span(
        trace_id=number.to_bytes(16),
        span_id=number.to_bytes(8),
        name="POST /run",
        kind=Span.SPAN_KIND_SERVER,
        start_time_unix_nano=start,
        end_time_unix_nano=start + 1,
        attributes=_attributes(
            {"nemo.gym.rollout.id": f"r{number:02}", **({"failure.id": event_id} if event_id else {})}
        ),
        events=failed if event_id else [],
    )
    return TracesData(
        resource_spans=[
            ResourceSpans(
                resource=Resource(attributes=_attributes({"service.name": service})),
                scope_spans=[ScopeSpans(spans=[span])],
            )
        ]
    )


def _attributes(values):
    return [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in values.items()]


class Store:
    """The traces that a server has, how it answers, and what it was asked."""

    def __init__(self, traces):
        """Hold `traces`."""
        self.traces = traces
        self.asked = []
        self.url = ""
        self.end_belongs = True
        """Whether a range of times holds its end; Jaeger's API says that it does not, and most of its stores do."""

    def get_services(self, _request, _context):
        """Answer with the names of all services."""
        return Services(services=sorted({_service(one) for one in self.traces})).SerializeToString()

    def find_traces(self, request, _context):
        """Yield what is found, a message for each trace."""
        query = Request.FromString(request).query
        self.asked.append(query)
        found = [one for one in self.traces if self._matches(one, query)]
        yield from (one.SerializeToString() for one in found[: query.search_depth])

    def _matches(self, one, query):
        (span,) = one.resource_spans[0].scope_spans[0].spans
        pairs = [*span.attributes, *(pair for event in span.events for pair in event.attributes)]
        start, least, most = span.start_time_unix_nano, _time(query.start_time_min), _time(query.start_time_max)
        return (
            _service(one) == query.service_name
            and least <= start < most + self.end_belongs
            and {*query.attributes.items()} <= {(pair.key, pair.value.string_value) for pair in pairs}
        )


def _service(one):
    return one.resource_spans[0].resource.attributes[0].value.string_value


def _time(stamp):
    return stamp.seconds * 10**9 + stamp.nanos


@contextmanager
def served(*traces, **methods):
    """Serve `traces` on a free port, and give the store, whose `url` it is; `methods` answer in place of its own."""
    store = Store(traces)
    answers = {"get_services": store.get_services, "find_traces": store.find_traces, **methods}
    handlers = {
        "GetServices": grpc.unary_unary_rpc_method_handler(answers["get_services"]),
        "FindTraces": grpc.unary_stream_rpc_method_handler(answers["find_traces"]),
    }
    with ThreadPoolExecutor(4) as threads, listening(threads) as (server, store.url):
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("jaeger.api_v3.QueryService", handlers)])
        yield store


@contextmanager
def listening(threads):
    """Give a server without a service, and its URL."""
    server = grpc.server(threads)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield server, f"grpc://127.0.0.1:{port}"
    finally:
        server.stop(0).wait()
