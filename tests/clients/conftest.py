"""Where the server under test comes from. See README.md."""

import os
import re
import select
import signal
import socket
import subprocess
import time
import urllib.request

import openai
import pytest


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class StartedServer:
    """A server process of our own."""

    def __init__(self, *options):
        self.port = free_port()
        scripted = os.environ.get("DEEPINFER_SCRIPTED_SERVER")
        if scripted:
            command = [scripted]
            renamed = {"--max-running": "--running", "--max-queue": "--queue"}
            options = [renamed.get(o, o) for o in options]
        else:
            command = [os.environ["DEEPINFER_BINARY"], "serve", "--model", os.environ["DEEPINFER_MODEL"]]
        self.process = subprocess.Popen([*command, "--port", str(self.port), *options], stdin=subprocess.PIPE)
        self.base_url = f"http://127.0.0.1:{self.port}/v1"
        deadline = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=2).read()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    raise RuntimeError("the server did not become ready")
                time.sleep(0.05)

    def stop(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=40)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def can_start():
    return bool(os.environ.get("DEEPINFER_SCRIPTED_SERVER") or
                (os.environ.get("DEEPINFER_BINARY") and os.environ.get("DEEPINFER_MODEL")))


def start(*options):
    if not can_start():
        pytest.skip("this test starts a server of its own")
    return StartedServer(*options)


@pytest.fixture(scope="session")
def base_url():
    url = os.environ.get("DEEPINFER_BASE_URL")
    if url:
        yield url.rstrip("/") if url.rstrip("/").endswith("/v1") else url.rstrip("/") + "/v1"
        return
    if not can_start():
        pytest.skip("no server: see tests/clients/README.md")
    server = StartedServer()
    yield server.base_url
    server.stop()


@pytest.fixture(scope="session")
def api_key():
    return os.environ.get("DEEPINFER_API_KEY", "unused")


@pytest.fixture(scope="session")
def client(base_url, api_key):
    return openai.OpenAI(base_url=base_url, api_key=api_key, max_retries=0, timeout=120)


@pytest.fixture(scope="session")
def model(client):
    return client.models.list().data[0].id


@pytest.fixture
def own_server():
    servers = []

    def launch(*options):
        servers.append(start(*options))
        return servers[-1]

    yield launch
    for server in servers:
        server.stop()


class Metrics:
    """Reads /metrics of the server under test."""

    def __init__(self, base_url, api_key):
        self.request = urllib.request.Request(base_url.removesuffix("/v1") + "/metrics",
                                              headers={"Authorization": f"Bearer {api_key}"})

    def __getitem__(self, name):
        text = urllib.request.urlopen(self.request, timeout=10).read().decode()
        values = re.findall(rf"^deepinfer_{re.escape(name)} (\S+)$", text, re.M)
        assert len(values) == 1, f"{name} is not a metric"
        return float(values[0])

    def wait(self, name, predicate, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if predicate(self[name]):
                return True
            time.sleep(0.02)
        return False


@pytest.fixture
def metrics(base_url, api_key):
    return Metrics(base_url, api_key)
