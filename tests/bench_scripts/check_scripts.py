#!/usr/bin/env python3
"""What is missing is said by the scripts of bench/ in one line, before anything is measured, and is not a traceback."""

import subprocess
import sys
import tempfile
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"
ABSENT = "/absent/thing"


def cases(folder):
    program, model, data = folder / "program", folder / "model.gguf", folder / "data.json"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    model.write_text("")
    data.write_text("{}")
    broken = folder / "broken"
    broken.write_text("#!/absent/interpreter\n")
    broken.chmod(0o755)
    yes = ["--deepinfer", program, "--model", model]
    return [
        ("compare_peers.py", ["--deepinfer", ABSENT, "--model", model], ABSENT),
        ("compare_peers.py", ["--deepinfer", program, "--model", ABSENT], ABSENT),
        ("compare_peers.py", [*yes, "--peer", f"other={ABSENT}"], ABSENT),
        ("compare_peers.py", [*yes, "--peer", f"other={folder}"], "is no program"),
        ("compare_peers.py", [*yes, "--peer", f"other={program},batched"], "is wanted"),
        ("compare_peers.py", [*yes, "--peer", f"other={program},batched={ABSENT}"], ABSENT),
        ("compare_peers.py", [*yes, "--peer", f"other={broken}"], "broken"),
        ("compare_peers.py", [*yes, "--out", ABSENT], ABSENT),
        ("compare_peers.py", [*yes, "--works", "pp512,fly"], "no work fly"),
        ("engine.py", ["--deepinfer", ABSENT, "--model", model], ABSENT),
        ("engine.py", ["--deepinfer", program, "--model", ABSENT], ABSENT),
        ("engine.py", ["--deepinfer", broken, "--model", model], "cannot run"),
        ("engine.py", yes, "printed no results"),
        ("engine.py", [*yes, "--svg", ABSENT], ABSENT),
        ("first_token.py", ["--server", f"x={ABSENT} {{port}}"], ABSENT),
        ("first_token.py", ["--server", f"x={program}"], "{port}"),
        ("first_token.py", ["--server", f"x={program} {{port}}"], "did not become ready"),
        ("store_speed.py", ["--folder", ABSENT, "--program", program, "--fio", program], ABSENT),
        ("store_speed.py", ["--folder", folder, "--program", program, "--fio", ABSENT], ABSENT),
        ("store_speed.py", ["--folder", folder, "--program", program, "--fio", program], "printed no results"),
        ("cache_hits.py", ["--program", ABSENT], ABSENT),
        ("cache_hits.py", ["--program", program], "printed no results"),
        ("cache_hits.py", ["--program", program, "--trace", ABSENT], ABSENT),
        ("cache_hits.py", ["--program", program, "--svg", ABSENT], ABSENT),
        ("step_times.py", ["--program", ABSENT, model], ABSENT),
        ("step_times.py", ["--program", program, ABSENT], ABSENT),
        ("step_times.py", ["--program", program, model], "printed no results"),
        ("mixed_load.py", ["--url", "http://127.0.0.1:1"], "127.0.0.1:1"),
        ("mixed_load.py", ["--out", ABSENT], ABSENT),
        ("draw_trace.py", [ABSENT], ABSENT),
        ("draw_trace.py", [data], "no trace"),
        ("draw_trace.py", [model], "no trace"),
        ("kernels/table.py", [ABSENT], ABSENT),
        ("kernels/table.py", [data], "kernel_bench"),
    ]


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for script, arguments, expected in cases(Path(folder)):
            done = subprocess.run([sys.executable, BENCH / script, *arguments], capture_output=True, text=True, check=False,
                                  timeout=60)
            last = done.stderr.strip().splitlines()[-1:] or [""]
            if done.returncode == 0 or "Traceback" in done.stderr or expected not in last[0]:
                failed += 1
                print(f"{script} {' '.join(map(str, arguments))}: status {done.returncode}\n{done.stderr}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
