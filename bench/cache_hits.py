#!/usr/bin/env python3
"""How much of its input the prefix cache finds again, over the size of the pool.

    cache_hits.py --program build/release/bench/cache_hits [--trace FILE.jsonl[.gz] ...] [--json OUT.json] [--svg OUT.svg]

Runs the program (bench/cache, built with -DDEEPINFER_BENCH=ON): the engine with a model that computes nothing, on made-up sessions of
coding agents and on recorded traces (Mooncake's format: lines with input_length and hash_ids). Then what a disk store adds behind a small
pool, and what is found after a process was killed.
"""

import argparse
import gzip
import json
import math
import pathlib
import tempfile

import measuring
from draw_trace import svg, text

COLORS = ["#4878a8", "#d98c3f", "#6aa56a", "#a05195"]
AGENT_BLOCKS = "2500,5000,10000,20000,50000"
TRACE_BLOCKS = "10000,30000,100000,300000,1000000,2500000"
BLOCK_TOKENS = 64


def run(program, *arguments):
    done = measuring.run([program, *map(str, arguments)])
    try:
        return [json.loads(line) for line in done.stdout.splitlines()]
    except ValueError as error:
        raise measuring.Failed(f"{program} printed no results: is it the right program?") from error


def plain(path, folder):
    """The program reads no compressed files."""
    if path.suffix != ".gz":
        return path
    out = pathlib.Path(folder) / path.stem
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    out.write_bytes(b"".join(line for line in lines if line.startswith(b"{")))
    return out


def picture(curves):
    width, height, margin = 620, 360, 50
    sizes = [row["blocks"] * BLOCK_TOKENS for rows in curves.values() for row in rows]
    low, high = min(sizes), max(sizes)
    x = lambda tokens: margin + math.log(tokens / low) / math.log(high / low) * (width - 2 * margin)
    y = lambda share: height - margin - share * (height - 2 * margin)
    parts = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        parts.append(f'<line x1="{margin}" y1="{y(share):.1f}" x2="{width - margin}" y2="{y(share):.1f}" stroke="#ddd"/>')
        parts.append(text(margin - 6, y(share) + 4, f"{share:.0%}", "end"))
    tokens = 10 ** math.ceil(math.log10(low))
    while tokens <= high:
        label = f"{tokens // 10**6} M" if tokens >= 10**6 else f"{tokens // 1000} K"
        parts.append(text(x(tokens), height - margin + 18, label, "middle"))
        tokens *= 10
    parts.append(text(width / 2, height - 12, "tokens that the pool holds", "middle"))
    for i, (name, rows) in enumerate(curves.items()):
        color = COLORS[i % len(COLORS)]
        line = " ".join(f'{x(r["blocks"] * BLOCK_TOKENS):.1f},{y(r["cached"]):.1f}' for r in rows)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
        limit = y(rows[-1]["unlimited"])
        parts.append(f'<line x1="{margin}" y1="{limit:.1f}" x2="{width - margin}" y2="{limit:.1f}" stroke="{color}" '
                     'stroke-dasharray="3 3"/>')
        parts.append(text(width - margin, limit - 5, f"{name} (dashed: unlimited)", "end"))
    return svg(width, height, parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, type=measuring.program_path)
    parser.add_argument("--trace", action="append", default=[], type=lambda path: pathlib.Path(measuring.model_path(path)))
    parser.add_argument("--json", type=measuring.writable_path)
    parser.add_argument("--svg", type=measuring.writable_path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        curves = {"agents": run(options.program, "agent", "--blocks", AGENT_BLOCKS)}
        if not curves["agents"]:
            raise measuring.Failed(f"{options.program} printed no results: is it the right program?")
        for trace in options.trace:
            name = trace.name.split(".")[0].replace("_", " ")
            curves[name] = run(options.program, "trace", plain(trace, folder), "--blocks", TRACE_BLOCKS)
        disk = pathlib.Path(folder) / "disk"
        behind = run(options.program, "agent", "--sessions", 40, "--blocks", 5000, "--disk", disk / "a", "--disk-mib", 4000)
        killed = run(options.program, "agent", "--sessions", 40, "--blocks", 20000, "--disk", disk / "b", "--disk-mib", 4000,
                     "--kill")
    for name, rows in {**curves, "agents, pool of 320 K tokens and a disk": behind, "after kill -9": killed}.items():
        print(name)
        for row in rows:
            blocks = f', {row["of_512_token_blocks"]:.2%} of blocks of 512' if "of_512_token_blocks" in row else ""
            print(f'  {row["blocks"] * BLOCK_TOKENS:>11,} tokens: {row["cached"]:.2%} found, {row["of_unlimited"]:.2%} of what an '
                  f'unlimited cache finds{blocks}; {row["from_store"]:.2%} from the disk; at most {row["most_blocks_missed"]} '
                  "blocks less in one request")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"curves": curves, "disk": behind, "killed": killed}, indent=1))
    if options.svg:
        pathlib.Path(options.svg).write_text(picture(curves))


if __name__ == "__main__":
    measuring.run_main(main)
