"""The counts that NeMo Gym's processes exported, read from OTLP."""

from collections import Counter

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest


def counts(bodies, name, *labels):
    """Return what a counter stood at in the end, over all processes, by the values of `labels`; None for an absent one.

    A process exports its sums from its own start, again and again; the last is the highest.
    """
    last = {}
    for body in bodies:
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    if metric.name != name:
                        continue
                    for point in metric.sum.data_points:
                        process = resource.resource.SerializeToString(deterministic=True)
                        key = process, tuple(sorted((one.key, _value(one.value)) for one in point.attributes))
                        last[key] = max(last.get(key, 0), point.as_int)
    found = Counter()
    for (_, attributes), value in last.items():
        said = dict(attributes)
        found[tuple(said.get(label) for label in labels)] += value
    return found


def _value(value):
    kind = value.WhichOneof("value")
    return None if kind is None else getattr(value, kind)
