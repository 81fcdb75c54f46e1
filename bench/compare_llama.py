#!/usr/bin/env python3
"""Prefill and decode speed of deepinfer beside llama.cpp: same file, same threads, one run.

    compare_llama.py --llama-bench BIN --deepinfer BIN --model FILE [--model FILE ...] [--out RESULT.json]

Measures tokens per second of a prefill of 512 tokens and of 128 tokens decoded one by one, from an empty context,
batch 1. The two programs run alternately, each `--repetitions` times in a fresh process with its own warm-up, so that
a change of the machine's mood hits both. Prints medians, ranges and the ratio deepinfer / llama.cpp.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path


def run_json(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with status {done.returncode}:\n{done.stderr.strip()}")
    return json.loads(done.stdout)


def llama(arguments, model):
    entries = run_json([arguments.llama_bench, "-m", model, "-p", str(arguments.prefill), "-n", str(arguments.decode),
                        "-t", str(arguments.threads), "-r", "1", "-o", "json"])
    by_kind = {"prefill" if entry["n_prompt"] > 0 else "decode": entry["avg_ts"] for entry in entries}
    return by_kind["prefill"], by_kind["decode"]


def deepinfer(arguments, model):
    result = run_json([arguments.deepinfer, "bench", "--model", model, "--prefill", str(arguments.prefill), "--decode",
                       str(arguments.decode), "--threads", str(arguments.threads), "--repetitions", "1", "--json"])
    return result["prefill_tokens_per_second"], result["decode_tokens_per_second"]


def summary(values):
    return f"{statistics.median(values):8.1f} ({min(values):.1f} to {max(values):.1f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-bench", required=True)
    parser.add_argument("--deepinfer", required=True)
    parser.add_argument("--model", action="append", required=True)
    parser.add_argument("--prefill", type=int, default=512)
    parser.add_argument("--decode", type=int, default=128)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--markdown", action="store_true", help="print the table of the README at the end")
    parser.add_argument("--out", help="write every single measurement as JSON")
    arguments = parser.parse_args()

    load = os.getloadavg()[0]
    print(f"{arguments.threads} threads, {arguments.repetitions} alternating runs, load average before: {load:.2f}")
    if load > 0.3:
        print("WARNING: the machine is not idle; these numbers mean little")
    print(f"tokens/s, median (range){'':17} {'deepinfer':>26} {'llama.cpp':>30}   ratio")
    results = []
    for model in arguments.model:
        ours, theirs = [], []
        for _ in range(arguments.repetitions):
            theirs.append(llama(arguments, model))
            ours.append(deepinfer(arguments, model))
        for kind, index, count in (("prefill", 0, arguments.prefill), ("decode", 1, arguments.decode)):
            our_values = [pair[index] for pair in ours]
            their_values = [pair[index] for pair in theirs]
            ratio = statistics.median(our_values) / statistics.median(their_values)
            print(f"{Path(model).name[:28]:28} {kind} {count:4} {summary(our_values):>30} {summary(their_values):>30}"
                  f"   {ratio:.2f}", flush=True)
            results.append({"model": Path(model).name, "kind": kind, "tokens": count, "threads": arguments.threads,
                            "load_before": load, "deepinfer": our_values, "llama.cpp": their_values, "ratio": ratio})
    if arguments.markdown:
        print("\n| model | | deepinfer | llama.cpp | ratio |\n|---|---|---|---|---|")
        for entry in results:
            ours, theirs = (statistics.median(entry[name]) for name in ("deepinfer", "llama.cpp"))
            print(f"| {entry['model']} | {entry['kind']} {entry['tokens']} | {ours:.0f} | {theirs:.0f} | {entry['ratio']:.2f} |")
    if arguments.out:
        Path(arguments.out).write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
