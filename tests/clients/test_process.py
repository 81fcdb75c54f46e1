"""The life of the server process: signals, draining, command line. Needs DEEPINFER_BINARY and DEEPINFER_MODEL."""

import os
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request

import openai
import pytest

pytestmark = pytest.mark.skipif(not (os.environ.get("DEEPINFER_BINARY") and os.environ.get("DEEPINFER_MODEL")),
                                reason="needs DEEPINFER_BINARY and DEEPINFER_MODEL")


def status(server, path):
    try:
        return urllib.request.urlopen(server.base_url.removesuffix("/v1") + path, timeout=5).status
    except urllib.error.HTTPError as error:
        return error.code


def open_streams(server, count, max_tokens):
    client = openai.OpenAI(base_url=server.base_url, api_key="x", max_retries=0, timeout=120)
    model = client.models.list().data[0].id
    return [client.completions.create(model=model, prompt="Count: one two", max_tokens=max_tokens, stream=True,
                                      extra_body={"ignore_eos": True}) for _ in range(count)]


def test_first_signal_drains(own_server):
    server = own_server("--drain-seconds", "300")  # loaded machines are slow
    streams = open_streams(server, 20, 100)
    reasons = []

    def read(stream):
        reasons.append([c.choices[0].finish_reason for c in stream if c.choices][-1])

    readers = [threading.Thread(target=read, args=(s,)) for s in streams]
    for reader in readers:
        reader.start()
    server.process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + 2
    while status(server, "/readyz") != 503 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert status(server, "/readyz") == 503
    assert status(server, "/health") == 200
    for reader in readers:
        reader.join()
    assert reasons == ["length"] * 20
    assert server.process.wait(timeout=10) == 0


def test_second_signal_ends_at_once(own_server):
    server = own_server()
    streams = open_streams(server, 2, 100_000)
    for stream in streams:
        next(iter(stream))
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert server.process.poll() is None
    started = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(timeout=5)
    assert time.monotonic() - started < 1


def test_drain_has_a_limit(own_server):
    server = own_server("--drain-seconds", "1")
    streams = open_streams(server, 2, 100_000)
    for stream in streams:
        next(iter(stream))
    started = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=10) == 0
    assert time.monotonic() - started < 4


def test_wrong_use_is_explained(own_server, tmp_path):
    binary, model = os.environ["DEEPINFER_BINARY"], os.environ["DEEPINFER_MODEL"]

    def run(*options):
        return subprocess.run([binary, "serve", *options], capture_output=True, text=True, timeout=60)

    assert run().returncode == 2
    assert run("--model", model, "--no-such-option").returncode == 2
    missing = run("--model", str(tmp_path / "missing.gguf"), "--port", "0")
    assert missing.returncode == 1 and "missing.gguf" in missing.stderr
    empty_keys = run("--model", model, "--port", "0", "--api-key-file", str(tmp_path / "none"))
    assert empty_keys.returncode == 1 and "none" in empty_keys.stderr
    server = own_server()
    taken = run("--model", model, "--port", str(server.port))
    assert taken.returncode == 1 and "cannot listen" in taken.stderr
