#!/usr/bin/env python3
"""Speed of models over prompt length and number of sequences: numbers as JSON, and a picture.

    engine.py --deepinfer BIN --model FILE [--model FILE ...] [--out RESULT.json] [--svg RESULT.svg]

Runs `deepinfer bench` for every combination: prompts of 512, 4096 and 16384 tokens; 128 tokens decoded by 1, 4, 8 and 16
sequences side by side; on 1 and 2 threads. Speeds are medians of the repetitions, of all sequences together. Prompts longer
than a model's context are left out.
"""

import argparse
import json
from pathlib import Path
from xml.sax.saxutils import escape

import measuring

COLORS = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"]


def numbers(text):
    return [int(n) for n in text.split(",")]


def bench(arguments, model, threads, *options):
    """The JSON row, with the load of others; nothing if the model's context is too short."""
    command = [arguments.deepinfer, "bench", "-m", model, "-t", str(threads), "-r", str(arguments.repetitions), "-o", "json", *options]
    try:
        done = measuring.run(command)
    except measuring.Failed as error:
        if "more than the model's context" not in str(error):
            raise
        print(f"{Path(model).stem}, {threads} threads, {' '.join(options)}: longer than the context, left out")
        return None
    row = measuring.results(done, arguments.deepinfer)[0]
    row["other_load"] = done.other_load
    return row


def measure(arguments):
    rows = []
    for model in arguments.model:
        for threads in arguments.threads:
            works = [("-p", str(n), "-n", "0") for n in arguments.prompts]
            works += [("-p", "0", "-n", str(arguments.generate), "-npl", str(n), "--bandwidth") for n in arguments.sequences]
            for work in works:
                row = bench(arguments, model, threads, *work)
                if row is None:
                    continue
                rows.append(row)
                share = f", {100 * row['bandwidth_share']:.0f} % of the memory's read rate" if "bandwidth_share" in row else ""
                what = f"prompt of {row['n_prompt']}" if row["n_prompt"] else f"{row['n_gen']} decoded x {row['n_sequences']}"
                print(f"{Path(model).stem}, {threads} threads, {what}: {row['median_ts']:.1f} tokens/s"
                      f" ({min(row['samples_ts']):.1f} to {max(row['samples_ts']):.1f}){share}", flush=True)
    return rows


class Picture:
    """Groups of bars in panels; just enough SVG."""

    WIDTH, HEIGHT, LEFT, TOP = 340, 210, 60, 60

    def __init__(self, columns):
        self.columns, self.panels, self.parts = columns, 0, []

    def text(self, x, y, text, anchor="middle", size=11, color="#333333"):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{color}">{escape(text)}</text>')

    def bars(self, title, axis, groups, series):
        """groups: {label: {series name: tokens per second}}"""
        left = self.LEFT + (self.panels % self.columns) * (self.WIDTH + self.LEFT + 10)
        top = self.TOP + (self.panels // self.columns) * (self.HEIGHT + self.TOP + 36)
        self.panels += 1
        bottom = top + self.HEIGHT
        highest = max((value for group in groups.values() for value in group.values()), default=1) * 1.12
        self.text(left, top - 26, title, "start", 13)
        self.text(left - 6, top + 4, "tokens/s", "end", 9)
        self.text(left + self.WIDTH / 2, bottom + 30, axis)
        self.parts.append(f'<path d="M{left} {top} V{bottom} H{left + self.WIDTH}" fill="none" stroke="#888888"/>')
        room = self.WIDTH / max(1, len(groups))
        width = room * 0.8 / max(1, len(series))
        for g, (label, group) in enumerate(groups.items()):
            self.text(left + (g + 0.5) * room, bottom + 15, label)
            for s, name in enumerate(series):
                if name not in group:
                    continue
                height = self.HEIGHT * group[name] / highest
                x = left + g * room + 0.1 * room + s * width
                self.parts.append(f'<rect x="{x:.1f}" y="{bottom - height:.1f}" width="{width * 0.94:.1f}" height="{height:.1f}"'
                                  f' fill="{COLORS[s % len(COLORS)]}"/>')
                self.text(x + width * 0.47, bottom - height - 3, f"{group[name]:.0f}", size=9)
        for s, name in enumerate(series):
            x = left + 80 * s
            self.parts.append(f'<rect x="{x}" y="{top - 18}" width="9" height="9" fill="{COLORS[s % len(COLORS)]}"/>')
            self.text(x + 13, top - 10, name, "start", 10)

    def svg(self):
        rows = (self.panels + self.columns - 1) // self.columns
        width = self.columns * (self.WIDTH + self.LEFT + 10) + 20
        height = rows * (self.HEIGHT + self.TOP + 36) + 10
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">\n'
                f'<rect width="{width}" height="{height}" fill="white"/>\n' + "\n".join(self.parts) + "\n</svg>\n")


def draw(rows):
    picture = Picture(2)
    for model in dict.fromkeys(row["model_filename"] for row in rows):
        of_model = [row for row in rows if row["model_filename"] == model]
        series = list(dict.fromkeys(f"{row['n_threads']} thread{'s' if row['n_threads'] > 1 else ''}" for row in of_model))
        prefill, decode = {}, {}
        for row in of_model:
            name = f"{row['n_threads']} thread{'s' if row['n_threads'] > 1 else ''}"
            if row["n_prompt"]:
                prefill.setdefault(str(row["n_prompt"]), {})[name] = row["median_ts"]
            else:
                decode.setdefault(str(row["n_sequences"]), {})[name] = row["median_ts"]
        picture.bars(f"{Path(model).stem}: prefill", "tokens of the prompt", prefill, series)
        picture.bars(f"{Path(model).stem}: decode", "sequences side by side", decode, series)
    return picture.svg()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deepinfer", required=True, type=measuring.program_path)
    parser.add_argument("--model", action="append", required=True, type=measuring.model_path)
    parser.add_argument("--threads", type=numbers, default=[1, 2])
    parser.add_argument("--prompts", type=numbers, default=[512, 4096, 16384])
    parser.add_argument("--sequences", type=numbers, default=[1, 4, 8, 16])
    parser.add_argument("--generate", type=int, default=128, help="tokens decoded")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--out", type=measuring.writable_path, help="write all rows as JSON")
    parser.add_argument("--svg", type=measuring.writable_path, help="draw them")
    arguments = parser.parse_args()
    before = measuring.idle_load()
    measuring.warn_if_busy(before)
    rows = measure(arguments)
    if arguments.out:
        Path(arguments.out).write_text(json.dumps({"load_before": before, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    if arguments.svg:
        Path(arguments.svg).write_text(draw(rows), encoding="utf-8")


if __name__ == "__main__":
    measuring.run_main(main)
