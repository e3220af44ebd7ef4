"""Write the dashboard: `python collector-config/grafana/dashboard.py` makes gym-failures.json beside this file.

With `--check` nothing is written, and a file that is not what would be written is an error.
"""

import itertools
import sys
from pathlib import Path
from typing import Final

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import GraphDrawStyle, LegendDisplayMode, LegendPlacement, StackingMode
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    VariableHide,
    VariableOption,
    VariableRefresh,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

FILE: Final = Path(__file__).with_name("gym-failures.json")

SOURCE: Final = DataSourceRef(type_val="prometheus", uid="${prometheus}")
CHOSEN: Final = 'service_name=~"$service", failure_kind=~"$kind"'
JAEGER_SEARCH: Final = (
    "${jaeger}/search?lookback=1h&service=${__field.labels.service_name}"
    "&tags=%7B%22failure.kind%22%3A%22${__field.labels.failure_kind}%22%7D"
)
WIDTH: Final = 24
"""Columns of a Grafana dashboard."""


def build() -> str:
    """Return the dashboard as Grafana's JSON."""
    board = (
        dashboard.Dashboard("Failures of Gym")
        .uid("gym-failures")
        .description(
            "What fails, where, and how much of it. Counts are of failures that a server was first to observe."
        )
        .tags(["gym", "failures"])
        .time("now-1h", "now")
        .refresh("15s")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .readonly()
        .with_variable(
            dashboard.DatasourceVariable("prometheus")
            .label("Prometheus")
            .type("prometheus")
            .hide(VariableHide.HIDE_LABEL)
        )
        .with_variable(_labels("service", "service_name", "gym:failures:increase5m"))
        .with_variable(_labels("kind", "failure_kind", "gym:failures:increase5m"))
        .with_variable(dashboard.TextBoxVariable("jaeger").label("Jaeger").default_value("http://127.0.0.1:16686"))
        .link(_link("Jaeger", "${jaeger}/search"))
    )
    ids = itertools.count(1)
    for title, panels in (
        ("What fails", _failures()),
        ("Which servers", _servers()),
        ("What is lost on the way", _telemetry()),
    ):
        board.with_row(dashboard.Row(title).id(next(ids)))
        for panel in panels:
            board.with_panel(panel.id(next(ids)))
    return JSONEncoder(sort_keys=True, indent=2).encode(board.build()) + "\n"


Panel = timeseries.Panel | stat.Panel | table.Panel


def _failures() -> list[Panel]:
    return [
        _number("Failures, last 5 minutes", f"sum(gym:failures:increase5m{{{CHOSEN}}}) or vector(0)"),
        _number(
            "Root causes, last 5 minutes", f'sum(gym:failures:increase5m{{{CHOSEN}, failure_root="true"}}) or vector(0)'
        ),
        _number(
            "Kinds, last 5 minutes",
            f"count(sum by (failure_kind) (gym:failures:increase5m{{{CHOSEN}}}) > 0) or vector(0)",
        ),
        _bars(
            "Root causes by kind",
            f'sum by (failure_kind) (gym:failures:increase5m{{{CHOSEN}, failure_root="true"}})',
            "{{failure_kind}}",
            "A failure that nothing else caused. Sliding sums over five minutes.",
        ),
        _bars(
            "All failures by service and kind",
            f"sum by (service_name, failure_kind) (gym:failures:increase5m{{{CHOSEN}}})",
            "{{service_name}}: {{failure_kind}}",
            "A root cause counts again at every server that failed by it. A click on a series finds its traces.",
        ).data_links([dashboard.DashboardLink("Traces in Jaeger").url(JAEGER_SEARCH).target_blank(True)]),
        _counted_in_range(),
    ]


def _servers() -> list[Panel]:
    return [
        _lines(
            "Share of requests that failed",
            'gym:requests_failed:ratio5m{service_name=~"$service"}',
            "{{service_name}}",
            "By the status of the servers' spans, before any sampling in the gateway.",
        ).unit("percentunit"),
        _lines(
            "Failures per second, with traces",
            "sum by (failure_kind) "
            f'(rate(gym_failures_span_events_total{{{CHOSEN}, failure_origin="local"}}[$__rate_interval]))',
            "{{failure_kind}}",
            "Counted by the gateway out of spans; the dots are traces.",
            exemplars=True,
        ),
    ]


def _telemetry() -> list[Panel]:
    return [
        _lines(
            "Queue of the Collectors",
            "otelcol_exporter_queue_size / otelcol_exporter_queue_capacity",
            "{{instance}} {{exporter}}",
            "What waits on disk for the next hop.",
        ).unit("percentunit"),
        _lines(
            "What the Collectors refused, dropped or gave up",
            "sum by (instance, event, item) (gym:collector:increase5m)",
            "{{instance}}: {{event}} {{item}}",
            "Within five minutes. What is refused is sent again: by an SDK for seconds, by an agent for ever.",
        ),
        _lines(
            "Parts of failures dropped by servers",
            "gym:failures_dropped:increase5m",
            "{{service_name}}: {{reason}}",
            "Within five minutes. Reports say that they are incomplete where that matters.",
        ),
        _lines(
            "Reports refused by servers",
            "gym:reports_refused:increase5m",
            "{{service_name}}: {{reason}}",
            "Within five minutes. A peer of another version, or a proxy that changes headers.",
        ),
    ]


def _counted_in_range() -> table.Panel:
    counter = f"gym_failures_total{{{CHOSEN}}}"
    # A process is a series that only grows: its largest value, less the largest of the day before, also where it was
    # born or ended within the range. increase() knows nothing of the value that a series is born with.
    most = f"max_over_time({counter}[$__range])"
    counted = f"{most} - max_over_time({counter}[1d] offset $__range) or {most}"
    query = _query(
        f"sort_desc(round(sum by (failure_kind, failure_boundary, failure_stage, service_name) ({counted})) > 0)", ""
    )
    return (
        table.Panel()
        .title("Failures in the chosen time")
        .description("By the servers' own counters, the number of record.")
        .datasource(SOURCE)
        .with_target(query.instant().format(PromQueryFormat.TABLE))
        .span(WIDTH)
        .height(9)
    )


def _number(title: str, expression: str) -> stat.Panel:
    return stat.Panel().title(title).datasource(SOURCE).with_target(_query(expression, "")).span(WIDTH // 3).height(4)


def _bars(title: str, expression: str, legend: str, description: str) -> timeseries.Panel:
    return (
        _lines(title, expression, legend, description)
        .draw_style(GraphDrawStyle.BARS)
        .fill_opacity(60)
        .stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    )


def _lines(title: str, expression: str, legend: str, description: str, *, exemplars: bool = False) -> timeseries.Panel:
    shown = common.VizLegendOptions().display_mode(LegendDisplayMode.TABLE).placement(LegendPlacement.RIGHT)
    return (
        timeseries.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .with_target(_query(expression, legend).exemplar(exemplars))
        .legend(shown.show_legend(True).calcs(["lastNotNull", "max"]))
        .min(0)
        .span(WIDTH // 2)
        .height(9)
    )


def _query(expression: str, legend: str) -> prometheus.Dataquery:
    return prometheus.Dataquery().ref_id("A").expr(expression).legend_format(legend).datasource(SOURCE)


def _labels(name: str, label: str, metric: str) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(name)
        .label(name.capitalize())
        .datasource(SOURCE)
        .query(f"label_values({metric}, {label})")
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(VariableOption(selected=True, text="All", value="$__all"))
    )


def _link(title: str, url: str) -> dashboard.DashboardLink:
    return dashboard.DashboardLink(title).url(url).type(DashboardLinkType.LINK).target_blank(True)


def main(*arguments: str) -> None:
    """Write the file, or with `--check` say whether it is current."""
    made = build()
    if "--check" not in arguments:
        FILE.write_text(made)
    elif not FILE.is_file() or FILE.read_text() != made:
        sys.exit(f"{FILE.name} is not what dashboard.py makes: run it and commit the result")


if __name__ == "__main__":
    main(*sys.argv[1:])
