#!/usr/bin/env python3
"""Predicted against taken times of steps on real models.

    step_times.py --program build/release/bench/step_times [--rounds N] [--json OUT.json] [--svg OUT.svg] MODEL...

Runs the program (bench/steps, built with -DDEEPINFER_BENCH=ON) on each model: some 180 shapes of steps, 1 to 512 rows, up to 16
sequences, depths to 8192. Prints quantiles of |predicted / taken - 1|, where `taken` is the median over the rounds:

    profiled   predicted from the profile that `serve` makes at its start
    learned    predicted, for the shapes of odd number, after those of even number were observed as well
    repeated   the same of single measurements against their median: what the machine itself lets nobody predict
"""

import argparse
import json
import math

import measuring
from draw_trace import svg, text

COLORS = ["#4878a8", "#d98c3f", "#6aa56a", "#a05195"]


def quantiles(errors):
    errors = sorted(errors)
    at = lambda q: errors[min(len(errors) - 1, int(q * len(errors)))]
    within = sum(e < 0.1 for e in errors) / len(errors)
    return {"median": round(at(0.5), 4), "p90": round(at(0.9), 4), "within_10_percent": round(within, 3)}


def summary(steps):
    off = lambda predicted, step: abs(predicted / step["taken"] - 1)
    return {
        "profiled": quantiles([off(s["profiled"], s) for s in steps]),
        "learned": quantiles([off(s["learned"], s) for s in steps[1::2]]),
        "repeated": quantiles([off(seconds, s) for s in steps for seconds in s["seconds"]]),
    }


def scatter(runs):
    size, margin = 460, 50
    all_times = [1e3 * t for run in runs for s in run["steps"] for t in (s["learned"], s["taken"])]
    low, high = min(all_times), max(all_times)
    place = lambda ms: math.log(ms / low) / math.log(high / low) * (size - 2 * margin)
    x, y = (lambda ms: margin + place(ms)), (lambda ms: size - margin - place(ms))
    parts = []
    for factor, dash in ((1, ""), (1.1, "3 3"), (1 / 1.1, "3 3")):
        begin, end = max(low, low / factor), min(high, high / factor)
        parts.append(f'<line x1="{x(begin):.1f}" y1="{y(begin * factor):.1f}" x2="{x(end):.1f}" y2="{y(end * factor):.1f}" '
                     f'stroke="#999" stroke-dasharray="{dash}"/>')
    parts += [text(size / 2, size - 12, "predicted, ms (dashed: 10 % more or less)", "middle"),
              f'<g transform="rotate(-90 15 {size / 2})">' + text(15, size / 2, "taken, ms", "middle") + "</g>"]
    for i, run in enumerate(runs):
        color = COLORS[i % len(COLORS)]
        parts.append(f'<circle cx="{margin + 8}" cy="{margin + 18 * i}" r="3" fill="{color}"/>')
        parts.append(text(margin + 16, margin + 4 + 18 * i, run["model"]))
        for s in run["steps"][1::2]:
            rows = sum(c[0] for c in s["chunks"])
            parts.append(f'<circle cx="{x(1e3 * s["learned"]):.1f}" cy="{y(1e3 * s["taken"]):.1f}" r="2" fill="{color}" '
                         f'fill-opacity="0.6"><title>{rows} rows, {len(s["chunks"])} sequences</title></circle>')
    ticks = [t for e in range(-1, 6) for t in (10**e, 3 * 10**e) if low <= t <= high]
    for t in ticks:
        parts.append(text(x(t), size - margin + 15, f"{t:g}", "middle"))
        parts.append(text(margin - 4, y(t) + 4, f"{t:g}", "end"))
    return svg(size, size, parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL", type=measuring.model_path)
    parser.add_argument("--program", default="build/release/bench/step_times", type=measuring.program_path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--json", type=measuring.writable_path)
    parser.add_argument("--svg", type=measuring.writable_path)
    args = parser.parse_args()
    runs = []
    for model in args.models:
        command = [args.program, "--model", model, "--rounds", str(args.rounds), "--threads", str(args.threads)]
        program = measuring.run(command)
        run = measuring.results(program, args.program)
        run["errors"] = summary(run["steps"])
        run["other_load"] = program.other_load
        runs.append(run)
        print(f'{run["model"]}, {run["threads"]} threads, {len(run["steps"])} shapes; '
              f'others kept {program.other_load:.0%} of the machine busy')
        for name, errors in run["errors"].items():
            print(f'  {name:9} median {errors["median"]:6.1%}   90 % {errors["p90"]:6.1%}   '
                  f'within 10 %: {errors["within_10_percent"]:4.0%}')
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(runs, file)
    if args.svg:
        with open(args.svg, "w", encoding="utf-8") as file:
            file.write(scatter(runs))


if __name__ == "__main__":
    measuring.run_main(main)
