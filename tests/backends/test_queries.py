"""What the page of queries answers where processes begin and end within the time that is asked for."""

import subprocess

import pytest
import yaml

from backends.programs import PROMTOOL
from tests.backends.test_pages import QUERIES

COUNTER = (
    'gym_failures_total{{failure_kind="{kind}",failure_boundary="model",service_name="model",instance="{process}"}}'
)
SPANS = (
    'gym_failures_span_events_total{{failure_kind="{kind}",failure_boundary="model",service_name="model",'
    'failure_origin="{origin}",collector_instance_id="{gateway}"}}'
)
CALLS = (
    'traces_span_metrics_calls_total{{service_name="{service}",span_kind="SPAN_KIND_{kind}",'
    'status_code="STATUS_CODE_{status}",collector_instance_id="{gateway}"}}'
)
NOW = "180m"
"""When the questions are asked; series have a sample a minute, and the last hour begins at the 121st."""

LIVES = {
    "as long as anybody looks": ("100+0x120 101+1x59", 60),
    "born within the hour, still there": ("_x130 7x50", 7),
    "born and ended within the hour": ("_x130 7x10", 7),
    "born, counting and ended within the hour": ("_x130 7+1x10", 17),
    "older than an hour, ended within it": ("10x120 14x10", 4),
    "ended before the hour": ("5x100", 0),
    "cut off for half an hour": ("20x110 _x30 23x40", 3),
    "cut off for more than two hours": ("20x10 _x130 23x40", 3),
}
"""Values of a process's counter, and how many of its failures were within the last hour."""


def answers(tmp_path, question, series, expected):
    """Let `promtool` say whether a question of the page has the expected answer, given as labels and values."""
    case = {
        "rule_files": [],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series],
                "promql_expr_test": [
                    {
                        "expr": QUERIES[question],
                        "eval_time": NOW,
                        "exp_samples": [{"labels": labels, "value": value} for labels, value in expected],
                    }
                ],
            }
        ],
    }
    file = tmp_path / "case.yml"
    file.write_text(yaml.safe_dump(case))
    done = subprocess.run([PROMTOOL.find(), "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("life", LIVES)
def test_the_last_hour_of_one_process(tmp_path, life):
    """Failures of the last hour are counted exactly, whenever within it or before it their process began and ended."""
    values, failures = LIVES[life]
    expected = [] if life == "ended before the hour" else [('{failure_kind="cancelled"}', failures)]
    series = [(COUNTER.format(kind="cancelled", process=1), values)]
    answers(tmp_path, "What failed within the last hour?", series, expected)


def test_the_last_hour_of_a_fleet(tmp_path):
    """Processes do not disturb each other's counts."""
    series = [
        (COUNTER.format(kind="cancelled", process=number), values) for number, (values, _) in enumerate(LIVES.values())
    ]
    failures = sum(failures for _, failures in LIVES.values())
    answers(tmp_path, "What failed within the last hour?", series, [('{failure_kind="cancelled"}', failures)])


def test_a_run_that_is_over(tmp_path):
    """Processes that ended hours ago are counted whole, and so is one that lived for a minute."""
    series = [
        (COUNTER.format(kind="cancelled", process=1), "3+1x20"),
        (COUNTER.format(kind="cancelled", process=2), "_x60 2"),
    ]
    answers(tmp_path, "What failed in a run that is over?", series, [('{failure_kind="cancelled"}', 25)])


def test_what_runs_now_is_all_that_the_first_question_sees(tmp_path):
    """A process that ended more than five minutes ago is not in an answer without a range."""
    series = [
        (COUNTER.format(kind="cancelled", process=1), "3x180"),
        (COUNTER.format(kind="cancelled", process=2), "5x170"),
        (COUNTER.format(kind="cancelled", process=3), "7x178"),
    ]
    answers(tmp_path, "What failed, and how often?", series, [('{failure_kind="cancelled"}', 10)])


def test_shares_outlive_a_server_and_a_gateway(tmp_path):
    """The share is that of the last hour, for a server that ended in it and over a gateway that was replaced in it."""
    series = [
        # 40 of 100 within the hour at the first gateway, 10 of 100 at the second; half of all before the hour.
        (CALLS.format(service="model", kind="SERVER", status="ERROR", gateway=1), "500x120 540x10"),
        (CALLS.format(service="model", kind="SERVER", status="UNSET", gateway=1), "500x120 560x10"),
        (CALLS.format(service="model", kind="SERVER", status="ERROR", gateway=2), "_x135 10x45"),
        (CALLS.format(service="model", kind="SERVER", status="UNSET", gateway=2), "_x135 90x45"),
        (CALLS.format(service="model", kind="CLIENT", status="ERROR", gateway=1), "0+9x180"),
        (CALLS.format(service="ended", kind="SERVER", status="ERROR", gateway=1), "_x130 1x10"),
        (CALLS.format(service="ended", kind="SERVER", status="UNSET", gateway=1), "_x130 3x10"),
    ]
    expected = [('{service_name="model"}', 0.25), ('{service_name="ended"}', 0.25)]
    answers(tmp_path, "What share of its requests did each server fail within the last hour?", series, expected)


def test_counters_and_spans_agree_though_a_server_ended(tmp_path):
    """The two ways agree on a server that ended and a gateway that lives on; what one of them lacks shows whole."""
    spans = {"origin": "local", "gateway": 1}
    series = [
        (COUNTER.format(kind="cancelled", process=1), "50x130"),
        (SPANS.format(kind="cancelled", **spans), "50x180"),
        (COUNTER.format(kind="shutdown", process=2), "_x130 7x10"),
        (SPANS.format(kind="shutdown", **spans), "_x131 7x49"),
        (SPANS.format(kind="shutdown", origin="remote", gateway=1), "_x131 7x49"),
        (COUNTER.format(kind="agent_timeout", process=2), "_x130 4x10"),
        (SPANS.format(kind="judge_failed", **spans), "_x131 2x49"),
    ]
    expected = [
        ('{failure_kind="cancelled"}', 0),
        ('{failure_kind="shutdown"}', 0),
        ('{failure_kind="agent_timeout"}', 4),
        ('{failure_kind="judge_failed"}', -2),
    ]
    answers(tmp_path, "Do the spans tell the same story as the counters?", series, expected)
