"""What `doctor` says where NeMo Gym is installed."""

import json
import os
import subprocess

from gym_venv import WITH_US


def test_telemetry_that_is_silently_off():
    """NeMo Gym 0.7.0 with nemo-lens 0.1.0 makes nothing of its own switch, and `doctor` names what it cannot import."""
    doctor = WITH_US.python.with_name("gym-failures")
    env = {"PATH": os.environ["PATH"], "NEMO_GYM_OTEL_ENABLED": "1"}
    done = subprocess.run([doctor, "doctor", "--format", "json"], env=env, capture_output=True, text=True, check=True)
    (said,) = (one for one in json.loads(done.stdout)["findings"] if one["about"] == "NEMO_GYM_OTEL_ENABLED")
    assert said["level"] == "warning"
    assert said["says"].endswith(
        "there is no nemo.lens.groups.SpanRegistry, nemo.lens.semconv.NV_DL_RANK, nemo.lens.semconv.NV_DL_WORLD_SIZE"
    )


def test_it_is_really_off():
    """With its switch on, NeMo Gym 0.7.0 sets no telemetry up."""
    code = (
        "from nemo_gym.telemetry import init_telemetry; print(init_telemetry('policy_model', 'responses_api_models'))"
    )
    env = {"PATH": os.environ["PATH"], "NEMO_GYM_OTEL_ENABLED": "1"}
    done = subprocess.run([WITH_US.python, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"
