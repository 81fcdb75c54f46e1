#!/usr/bin/env python3
"""Pictures of a trace that `deepinfer serve --trace FILE` recorded.

    draw_trace.py TRACE.json --lanes LANES.svg [--from SECONDS] [--length SECONDS]
    draw_trace.py TRACE.json --predicted PREDICTED.svg

--lanes draws what the engine and the device did over a short time; --predicted draws, for every step, the time that the cost
model predicted and the time that it took, and prints quantiles of their ratio.
"""

import argparse
import json
import math

import measuring

COLORS = {"compute": "#4878a8", "skipped": "#bbbbbb", "plan": "#d98c3f", "process": "#6aa56a"}


def events(path):
    with open(path, encoding="utf-8") as file:
        try:
            found = [e for e in json.load(file)["traceEvents"] if e["ph"] == "X"]
        except (ValueError, KeyError, TypeError) as error:
            raise SystemExit(f"{path} is no trace of deepinfer serve --trace") from error
    if not found:
        raise SystemExit("the trace has no events")
    return sorted(found, key=lambda e: e["ts"])


def text(x, y, words, anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="12" font-family="sans-serif" text-anchor="{anchor}">{words}</text>'


def svg(width, height, parts):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">'
            f'<rect width="{width}" height="{height}" fill="white"/>' + "".join(parts) + "</svg>\n")


def lanes(found, begin, length):
    width, left, scale = 960, 70, (960 - 80) / (length * 1e6)
    first = found[0]["ts"] + begin * 1e6
    parts = [text(5, 50, "engine"), text(5, 100, "device")]
    for e in found:
        x = left + (e["ts"] - first) * scale
        if x < left or e["ts"] > first + length * 1e6:
            continue
        y = 35 if e["tid"] == 1 else 85
        title = f'{e["name"]} {e["args"]["step"]}: {e["dur"] / 1e3:.2f} ms, {e["args"]["rows"]} rows'
        parts.append(f'<rect x="{x:.2f}" y="{y}" width="{max(0.8, e["dur"] * scale):.2f}" height="24" stroke="white" '
                     f'stroke-width="0.4" fill="{COLORS[e["name"]]}"><title>{title}</title></rect>')
        if e["name"] == "compute" and e["dur"] * scale > 30:
            parts.append(text(x + 3, y + 17, f'{e["args"]["step"]}'))
    for i, name in enumerate(("compute", "plan", "process")):
        parts.append(f'<rect x="{left + 110 * i}" y="125" width="12" height="12" fill="{COLORS[name]}"/>')
        parts.append(text(left + 18 + 110 * i, 136, name))
    parts.append(text(width - 10, 136, f"{length * 1e3:.0f} ms in all", "end"))
    return svg(width, 145, parts)


def predicted(found):
    pairs = [(e["args"]["predicted_ms"], e["dur"] / 1e3) for e in found
             if e["name"] == "compute" and e["args"]["predicted_ms"] > 0]
    ratios = sorted(a / p for p, a in pairs)
    at = lambda q: ratios[int(q * (len(ratios) - 1))]
    print(f"{len(pairs)} steps; actual / predicted: 5 % {at(0.05):.2f}, 10 % {at(0.1):.2f}, median {at(0.5):.2f}, "
          f"90 % {at(0.9):.2f}, 95 % {at(0.95):.2f}")
    low = min(min(p) for p in pairs)
    high = max(max(p) for p in pairs)
    size, margin = 420, 45
    place = lambda v: math.log(v / low) / math.log(high / low) * (size - 2 * margin)
    parts = [f'<line x1="{margin}" y1="{size - margin}" x2="{size - margin}" y2="{margin}" stroke="#999"/>',
             text(size / 2, size - 10, "predicted, ms (logarithmic)", "middle"),
             f'<g transform="rotate(-90 15 {size / 2})">' + text(15, size / 2, "taken, ms", "middle") + "</g>"]
    for p, a in pairs[:: max(1, len(pairs) // 500)]:
        parts.append(f'<circle cx="{margin + place(p):.1f}" cy="{size - margin - place(a):.1f}" r="1.5" fill="#4878a8" '
                     'fill-opacity="0.4"/>')
    for v in (low, high):
        parts.append(text(margin + place(v), size - margin + 15, f"{v:.3g}", "middle"))
        parts.append(text(margin - 4, size - margin - place(v) + 4, f"{v:.3g}", "end"))
    return svg(size, size, parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=measuring.model_path)
    parser.add_argument("--lanes", type=measuring.writable_path)
    parser.add_argument("--predicted", type=measuring.writable_path)
    parser.add_argument("--from", dest="begin", type=float, default=0)
    parser.add_argument("--length", type=float, default=0.5)
    args = parser.parse_args()
    found = events(args.trace)
    for path, picture in ((args.lanes, lambda: lanes(found, args.begin, args.length)),
                          (args.predicted, lambda: predicted(found))):
        if path:
            with open(path, "w", encoding="utf-8") as file:
                file.write(picture())


if __name__ == "__main__":
    measuring.run_main(main)
