"""What Prometheus' own checker says of /metrics. Needs DEEPINFER_PROMTOOL, a promtool program."""

import os
import subprocess
import urllib.request

import pytest


@pytest.mark.skipif(not os.environ.get("DEEPINFER_PROMTOOL"), reason="needs DEEPINFER_PROMTOOL")
def test_promtool_finds_nothing(client, model, metrics):
    client.completions.create(model=model, prompt="One two", max_tokens=4)
    page = urllib.request.urlopen(metrics.request, timeout=10).read()
    checked = subprocess.run([os.environ["DEEPINFER_PROMTOOL"], "check", "metrics"], input=page, capture_output=True)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")
