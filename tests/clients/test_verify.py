"""`deepinfer verify`: the same answers, to the bit, whatever the caches do; and `deepinfer cache` on what it leaves.

K08; with gemma3, whose layers have windows, K02.
"""

import os
import pathlib
import subprocess
import time

import pytest

BINARY = os.environ.get("DEEPINFER_BINARY")
ORACLE = pathlib.Path(__file__).parent.parent / "oracle"
CONVERSATIONS = "300" if os.environ.get("DEEPINFER_FULL_TESTS") else "10"

pytestmark = pytest.mark.skipif(not BINARY, reason="needs the real program")


def models():
    small = [ORACLE / name for name in ("llama", "qwen2", "qwen3", "gemma3")] + [ORACLE / "gguf" / "llama-bf16.gguf"]
    default = os.environ.get("DEEPINFER_MODEL")
    return small + ([pathlib.Path(default)] if default else [])


@pytest.fixture
def redis(tmp_path):
    socket = tmp_path / "redis.sock"
    process = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", tmp_path],
                               stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while not socket.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    yield f"unix://{socket}"
    process.kill()
    process.wait()


@pytest.mark.parametrize("model", models(), ids=lambda path: path.name)
def test_every_arm_answers_the_same(model, tmp_path, redis):
    shared = tmp_path / "shared"
    run = subprocess.run(
        [BINARY, "verify", "--model", model, "--conversations", CONVERSATIONS, "--shared-cache-dir", shared, "--cache-url", redis],
        capture_output=True, text=True, timeout=3600)
    assert run.returncode == 0, run.stdout + run.stderr
    rows = {line[:16].strip(): line[16:].split() for line in run.stdout.splitlines() if line.endswith(" 0")}
    assert list(rows) == ["no cache", "cold", "warm", "restarted", "second process", "to shared", "from shared",
                          "to redis", "from redis"]
    share = {name: float(row[2].rstrip("%")) for name, row in rows.items()}
    assert share["no cache"] == 0
    assert share["warm"] > share["cold"] > 20
    # How much is found depends a little on what was broken off when.
    assert min(share["restarted"], share["second process"]) > share["warm"] - 8
    assert min(share["from shared"], share["from redis"]) > share["warm"] - 8
    assert float(rows["restarted"][3].rstrip("%")) > 0 and float(rows["warm"][3].rstrip("%")) == 0

    cache = [BINARY, "cache"]
    option = ["--cache-dir", shared]
    assert subprocess.run([*cache, "verify", *option], capture_output=True, text=True).returncode == 0
    segment = next(shared.rglob("*.segment"))
    damaged = bytearray(segment.read_bytes())
    damaged[3 * 4096] ^= 1
    segment.write_bytes(damaged)
    checked = subprocess.run([*cache, "verify", *option], capture_output=True, text=True)
    assert checked.returncode == 1 and "1 damaged" in checked.stdout
    assert "chat" in subprocess.run([*cache, "stat", *option], capture_output=True, text=True).stdout
    subprocess.run([*cache, "clear", *option], check=True)
    assert not list(shared.rglob("*.segment"))


def test_other_kinds_of_blocks_find_nothing(tmp_path):
    """A folder filled with F16 blocks gives nothing to a server with BF16 ones."""
    model = ORACLE / "llama"
    for kind in ("f16", "bf16", "f16"):
        run = subprocess.run([BINARY, "verify", "--model", model, "--conversations", "3", "--kv-type", kind,
                              "--shared-cache-dir", tmp_path], capture_output=True, text=True, timeout=600)
        assert run.returncode == 0, run.stdout + run.stderr
    folders = [entry for entry in tmp_path.iterdir() if entry.is_dir()]
    assert len(folders) == 2  # one for each kind


@pytest.mark.parametrize("options, said", [
    (["--cache-url", "redis://127.0.0.1:1"], "nothing came from the store"),
    (["--context", "50"], "Nothing was compared"),
])
def test_what_was_not_checked_is_not_said_to_be_good(options, said):
    run = subprocess.run([BINARY, "verify", "--model", ORACLE / "llama", "--conversations", "2", *options], capture_output=True,
                         text=True, timeout=300)
    assert run.returncode == 1 and said in run.stdout
