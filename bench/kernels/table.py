#!/usr/bin/env python3
"""The JSON of kernel_bench as Markdown tables.

    table.py kernels.json [MORE.json ...]

Products: the share of the instruction's peak where arithmetic is the limit, and of the memory's read rate where reading
the weights is. Repetitions (--benchmark_repetitions) are shown as medians.
"""

import json
import re
import statistics
import sys
from collections import defaultdict


def read(paths):
    """{name: {counter: median of the repetitions}}, and the context of the first file."""
    values, context = defaultdict(lambda: defaultdict(list)), None
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                data = json.load(file)
            context = context or data["context"]
        except OSError as error:
            sys.exit(f"table.py: {error}")
        except (ValueError, KeyError, TypeError):
            sys.exit(f"table.py: {path} is no output of kernel_bench --benchmark_out")
        for entry in data["benchmarks"]:
            if entry.get("run_type") == "aggregate" or entry.get("error_occurred"):
                continue
            name = re.sub(r"/(min_time:[\d.]+|real_time|repeats:\d+)", "", entry["name"])
            scale = {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}[entry["time_unit"]]
            values[name]["us"].append(entry["real_time"] * scale)
            for key, value in entry.items():
                if isinstance(value, (int, float)) and key not in ("real_time", "cpu_time"):
                    values[name][key].append(value)
    return {name: {k: statistics.median(v) for k, v in counters.items()} for name, counters in values.items()}, context


def percent(value):
    return f"{100 * value:.0f} %"


def gemm_tables(results):
    groups = defaultdict(lambda: defaultdict(dict))
    for name, r in results.items():
        match = re.fullmatch(r"gemm/(\w+)/(\d+x\d+)/M:(\d+)/threads:(\d+)", name)
        if match:
            kind, shape, rows, threads = match[1], match[2], int(match[3]), int(match[4])
            groups[shape, threads][kind][rows] = r
    for (shape, threads), kinds in sorted(groups.items(), key=lambda item: (item[0][1], -len(item[1]))):
        columns = sorted({rows for by_rows in kinds.values() for rows in by_rows})
        print(f"\n### Products {shape} (inputs x outputs), {threads} thread{'s' if threads > 1 else ''}\n")
        print("peak: share of the instruction's peak; read: share of the memory's read rate; r: time of M rows / time of one\n")
        print("| format |" + "".join(f" M={m} |" for m in columns) + "\n|---|" + "---|" * len(columns))
        for kind, by_rows in kinds.items():
            cells = []
            for m in columns:
                r = by_rows.get(m)
                if not r:
                    cells.append("")
                    continue
                ratio = f", r {r['us'] / by_rows[1]['us']:.2f}" if 1 in by_rows and 1 < m <= 16 else ""
                peak = f"peak {percent(r['peak_share'])}" if r.get("peak_share") else ""
                read_share = f"read {percent(r['read_share'])}" if m <= 4 else ""
                cells.append(", ".join(filter(None, [read_share, peak if m >= 4 else ""])) + ratio)
            print(f"| {kind} | " + " | ".join(cells) + " |")


def attention_tables(results):
    rows = []
    for name, r in results.items():
        match = re.fullmatch(r"attention_(\w+)/(\w+)/([^/]+)/keys:(\d+)/threads:(\d+)", name)
        if match:
            share = f"{r['GBps']:.1f} GB/s, {percent(r['read_share'])} of read" if "read_share" in r else ""
            peak = f"{r['GOPS']:.0f} GFLOPS, {percent(r.get('peak_share', 0))} of peak"
            rows.append((match[3], match[1], match[2], int(match[5]), int(match[4]), r["us"], share, peak))
    if rows:
        print("\n### Attention\n\n| heads of | | KV | threads | keys | us a layer | memory | arithmetic |\n|---|---|---|---|---|---|---|---|")
        for model, kind, kv, threads, keys, us, share, peak in sorted(rows, key=lambda row: row[:5]):
            print(f"| {model} | {kind} | {kv} | {threads} | {keys} | {us:.1f} | {share} | {peak} |")


def other_table(results):
    rest = {name: r for name, r in results.items() if not name.startswith(("gemm/", "attention_"))}
    if rest:
        print("\n### The rest\n\n| benchmark | us | |\n|---|---|---|")
        for name, r in rest.items():
            extra = next((f"{r[key]:.3g} {unit}" for key, unit in (("ns_per_value", "ns a value"), ("ns_per_row", "ns a row"),
                                                                   ("longest_work_us", "us of work")) if key in r), "")
            print(f"| {name} | {r['us']:.3g} | {extra} |")


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    results, context = read(sys.argv[1:])
    print(f"{context['num_cpus']} processors, {context['isa']}: int8 by {context['int8_instruction']}, "
          f"BF16 by {context['bf16_instruction']}, F32 by {context['f32_instruction']}")
    gemm_tables(results)
    attention_tables(results)
    other_table(results)


if __name__ == "__main__":
    main()
