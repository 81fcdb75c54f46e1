#!/usr/bin/env python3
"""Speed and memory of deepinfer beside other programs: same file, same threads, one run.

    compare_peers.py --deepinfer BIN --peer NAME=LLAMA_BENCH[,batched=LLAMA_BATCHED_BENCH][,completion=LLAMA_COMPLETION]
                     [--peer ...] --model FILE [--model FILE ...] [--works pp512,tg128,...] [--out RESULT.json]

Peers are programs with the command lines of llama.cpp's tools; what a peer's tool cannot do is left out with a note.
Every program is started anew for every measurement, and they take turns, so that a change of the machine's mood hits
all. A pair is one measurement of ours and the peer's next to it; ratios are ours / theirs of the medians, with the
lowest and the highest ratio of a pair. Works:

    ppN            a prompt of N tokens, tokens/s
    tgN, tgN@D     N tokens decoded one by one, at depth D, tokens/s
    batchB         B sequences decoded side by side at depth 128, tokens/s of all together (needs batched=)
    rowsM          steps of M rows of one sequence, rows/s (peers: prompts of M tokens, with one row of logits)
    contention     share of the decoding speed that is left with a busy process pinned to one processor
    load1, load2   seconds from the start to the end of a program that generates one token: for the first time (file not
                   in the page cache, our cache folder empty), and for the second (needs completion=)
    memory         peak resident memory of the second, MB

"all" are the works of the project's table of speeds.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import measuring

ALL = ("pp512,pp4096,pp16384,tg128,tg128@2048,tg128@6144,batch1,batch4,batch8,batch16,rows1,rows2,rows4,rows8,rows16,"
       "contention,load1,load2,memory").split(",")
UNITS = {"pp": "tokens/s", "tg": "tokens/s", "batch": "tokens/s", "rows": "rows/s", "contention": "of alone",
         "load": "s", "memory": "MB"}
BATCH_PROMPT, BATCH_TOKENS = 128, 64  # of batched decoding
ROW_STEPS = 16                        # of rowsM
CONTENTION_TOKENS = 32


class Unable(Exception):
    """This program cannot do this work; the text says why."""


def kind_of(work):
    return re.match(r"[a-z]+", work)[0]


def number_in(work):
    return int(re.search(r"\d+", work)[0])


class Program:
    """One side. run() starts one of its tools and remembers how busy the machine was with others."""

    def __init__(self, name, arguments):
        self.name, self.threads, self.load = name, arguments.threads, []

    def run(self, command, environment=None):
        done = measuring.run(command, environment)
        self.load.append(done.other_load)
        return done


class Ours(Program):
    def __init__(self, arguments):
        super().__init__("deepinfer", arguments)
        self.binary, self.extra = arguments.deepinfer, arguments.bench_options.split()
        self.shares = {}  # (model, work) -> shares of the memory's bandwidth

    def bench(self, model, *options):
        done = self.run([self.binary, "bench", "-m", model, "-t", str(self.threads), "-r", "1", "-o", "json", *options,
                         *self.extra])
        return measuring.results(done, self.binary)[0]

    def prompt(self, model, tokens):
        return self.bench(model, "-p", str(tokens), "-n", "0")["avg_ts"]

    def decode(self, model, tokens, depth, work=None):
        row = self.bench(model, "-p", "0", "-n", str(tokens), "-d", str(depth), "--bandwidth")
        self.shares.setdefault((model, work), []).append(row["bandwidth_share"])
        return row["avg_ts"]

    def batch(self, model, sequences):
        return self.bench(model, "-p", "0", "-n", str(BATCH_TOKENS), "-d", str(BATCH_PROMPT), "-npl", str(sequences))["avg_ts"]

    def rows(self, model, rows):
        return self.bench(model, "-p", "0", "-n", str(ROW_STEPS), "--step-rows", str(rows))["avg_ts"]

    def generate(self, model, cache):
        return self.run([self.binary, "generate", "-m", model, "-t", str(self.threads), "--context", "2048", "--prompt", "Hello",
                         "--max-tokens", "1", "--temperature", "0", "--ignore-eos"],
                        {"XDG_CACHE_HOME": cache, "DEEPINFER_CACHE": cache})


class Peer(Program):
    def __init__(self, text, arguments):
        first, *others = text.split(",")
        name, _, bench = first.partition("=")
        tools = dict(part.partition("=")[::2] for part in others)
        if not bench or not all(tools.values()) or set(tools) - {"batched", "completion"}:
            sys.exit(f"--peer {text}: NAME=LLAMA_BENCH[,batched=PROGRAM][,completion=PROGRAM] is wanted")
        super().__init__(name, arguments)
        self.tools = {"bench": bench, **tools}
        for path in self.tools.values():
            try:
                measuring.program_path(path)
            except argparse.ArgumentTypeError as error:
                sys.exit(f"--peer {text}: {error}")
        self.extra = arguments.peer_options.split()
        self.help = self.help_of(bench)
        if not self.has("-p"):
            sys.exit(f"{bench} --help does not know -p:\n{self.help.strip()[-1000:]}")

    @staticmethod
    def environment(tool):  # libraries beside the program are found, and not those of another peer
        return {"LD_LIBRARY_PATH": str(Path(tool).resolve().parent)}

    def help_of(self, tool):
        done = subprocess.run([tool, "--help"], capture_output=True, text=True, check=False,
                              env={**os.environ, **self.environment(tool)})
        return done.stdout + done.stderr

    def has(self, option):
        return re.search(rf"^\s*(\S+, )*{option}[\s,]", self.help, re.MULTILINE) is not None

    def tool(self, kind):
        if kind not in self.tools:
            raise Unable(f"--peer {self.name}=… names no {kind}= program")
        return self.tools[kind]

    def bench(self, model, *options, repetitions=1):
        tool = self.tool("bench")
        done = self.run([tool, "-m", model, "-t", str(self.threads), "-r", str(repetitions), "-o", "json", *options, *self.extra],
                        self.environment(tool))
        try:
            return json.loads(done.stdout[done.stdout.index("["):])[-1]
        except (ValueError, IndexError) as error:
            raise Unable(f"{tool} printed no list of results") from error

    def prompt(self, model, tokens):
        return self.bench(model, "-p", str(tokens), "-n", "0")["avg_ts"]

    def decode(self, model, tokens, depth, _work=None):
        if depth == 0:
            return self.bench(model, "-p", "0", "-n", str(tokens))["avg_ts"]
        if self.has("-d"):
            return self.bench(model, "-p", "0", "-n", str(tokens), "-d", str(depth))["avg_ts"]
        if self.has("-gp"):  # decoding after a prompt, of which only the decoding is timed
            return self.bench(model, "-p", "0", "-n", "0", "-gp", f"{depth},{tokens}")["avg_ts"]
        raise Unable("its llama-bench knows neither -d nor -gp")

    def batch(self, model, sequences):
        tool = self.tool("batched")
        context = sequences * (BATCH_PROMPT + BATCH_TOKENS)
        done = self.run([tool, "-m", model, "-t", str(self.threads), "-c", str(max(512, context)), "-npp", str(BATCH_PROMPT),
                         "-ntg", str(BATCH_TOKENS), "-npl", str(sequences)], self.environment(tool))
        for line in reversed((done.stdout + "\n" + done.stderr).splitlines()):
            # | PP | TG | B | N_KV | T_PP s | S_PP t/s | T_TG s | S_TG t/s | T s | S t/s |
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if len(cells) == 10 and cells[:3] == [str(BATCH_PROMPT), str(BATCH_TOKENS), str(sequences)]:
                return float(cells[7])
        raise Unable("the output of its llama-batched-bench has no row for this")

    def rows(self, model, rows):
        return self.bench(model, "-p", str(rows), "-n", "0", repetitions=ROW_STEPS)["avg_ts"]

    def generate(self, model, _cache):
        tool = self.tool("completion")
        options = ["-m", model, "-t", str(self.threads), "-c", "2048", "-p", "Hello", "-n", "1", "--temp", "0", "--ignore-eos"]
        if "-no-cnv" in self.help_of(tool):
            options.append("-no-cnv")
        return self.run([tool, *options], self.environment(tool))


def forget(model):
    """The file's pages leave the page cache, as far as nobody has them mapped."""
    with open(model, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def busy_neighbour(processor):
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    os.sched_setaffinity(process.pid, {processor})
    try:
        yield
    finally:
        process.kill()
        process.wait()


def contention(program, model):
    alone = program.decode(model, CONTENTION_TOKENS, 0)
    with busy_neighbour(min(os.sched_getaffinity(0))):
        shared = program.decode(model, CONTENTION_TOKENS, 0)
    program.load.pop()  # this load was wanted
    return shared / alone


def load_and_generate(program, model, work):
    with tempfile.TemporaryDirectory() as cache:
        if work == "load1":
            forget(model)
            return program.generate(model, cache).seconds
        program.generate(model, cache)  # fills what there is to fill
        second = program.generate(model, cache)
        return second.seconds if work == "load2" else second.peak_bytes / 1e6


def measure(program, model, work):
    kind = kind_of(work)
    if kind == "pp":
        return program.prompt(model, number_in(work))
    if kind == "tg":
        tokens, _, depth = work[2:].partition("@")
        return program.decode(model, int(tokens), int(depth or 0), work)
    if kind == "batch":
        return program.batch(model, number_in(work))
    if kind == "rows":
        return program.rows(model, number_in(work))
    if kind == "contention":
        return contention(program, model)
    return load_and_generate(program, model, work)


def take_turns(programs, model, work, pairs):
    """{name: [value of each turn]}; a program that cannot do it is left out, with a note."""
    values, notes = {program.name: [] for program in programs}, []
    able = list(programs)
    for turn in range(pairs):
        for program in list(able if turn % 2 == 0 else reversed(able)):
            try:
                values[program.name].append(measure(program, model, work))
            except (Unable, measuring.Failed) as error:
                able.remove(program)
                del values[program.name]
                notes.append(f"{program.name}, {Path(model).name}, {work}: {error}")
                if program is programs[0]:
                    return values, notes
    return values, notes


def digits(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def summary(values):
    return f"{digits(statistics.median(values))} ({digits(min(values))} to {digits(max(values))})"


def ratio(ours, theirs):
    pairs = [a / b for a, b in zip(ours, theirs)]
    return {"of_medians": statistics.median(ours) / statistics.median(theirs), "lowest": min(pairs), "highest": max(pairs)}


def heading(peers):
    return ("| model | work | unit | deepinfer | of read |" + "".join(f" {name} | ratio |" for name in peers) + " other load |\n"
            "|---|---|---|---|---|" + "---|---|" * len(peers) + "---|")


def table_row(entry, peers):
    shares = entry["bandwidth_shares"]
    share = f"{100 * statistics.median(shares):.0f} %" if shares else ""
    ours = entry["values"].get("deepinfer")
    line = f"| {entry['model']} | {entry['work']} | {entry['unit']} | {summary(ours) if ours else '-'} | {share} |"
    for name in peers:
        if name in entry["ratios"]:
            r = entry["ratios"][name]
            line += f" {summary(entry['values'][name])} | {r['of_medians']:.2f} ({r['lowest']:.2f} to {r['highest']:.2f}) |"
        else:
            line += " - | - |"
    return line + f" {100 * entry['other_load']:.0f} % |"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deepinfer", required=True, type=measuring.program_path, help="our program")
    parser.add_argument("--peer", action="append", default=[], help="see above; may be repeated")
    parser.add_argument("--model", action="append", required=True, type=measuring.model_path)
    parser.add_argument("--works", default="pp512,tg128", help="separated by commas, or all")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--pairs", type=int, default=5, help="turns of every program")
    parser.add_argument("--bench-options", default="", help="more options for deepinfer bench, such as '--kv-type f32'")
    parser.add_argument("--peer-options", default="", help="more options for the peers' llama-bench, such as '-fa 1'")
    parser.add_argument("--out", type=measuring.writable_path, help="write every single measurement as JSON")
    parser.add_argument("--markdown", type=measuring.writable_path, help="write the table")
    arguments = parser.parse_args()
    arguments.works = ALL if arguments.works == "all" else arguments.works.split(",")
    for work in arguments.works:
        if not re.fullmatch(r"pp\d+|tg\d+(@\d+)?|batch\d+|rows\d+|contention|load[12]|memory", work):
            parser.error(f"there is no work {work}")
    return arguments


def main():
    arguments = parse_arguments()
    ours, peers = Ours(arguments), [Peer(text, arguments) for text in arguments.peer]
    names = [peer.name for peer in peers]
    if len(set(names) | {"deepinfer"}) != len(names) + 1:
        sys.exit("every peer needs a name of its own")
    before = measuring.idle_load()
    print(f"{arguments.threads} threads, {arguments.pairs} turns; others keep {100 * before:.0f} % of the machine busy\n")
    measuring.warn_if_busy(before)
    print(heading(names), flush=True)
    results, notes = [], []
    for model in arguments.model:
        for work in arguments.works:
            for program in (ours, *peers):
                program.load.clear()
            values, remarks = take_turns([ours, *peers], model, work, arguments.pairs)
            notes += remarks
            results.append({"model": Path(model).stem, "work": work, "unit": UNITS[kind_of(work)], "threads": arguments.threads,
                            "values": values, "bandwidth_shares": ours.shares.get((model, work), []),
                            "other_load": statistics.median([load for p in (ours, *peers) for load in p.load] or [0.0]),
                            "ratios": {name: ratio(values["deepinfer"], values[name]) for name in names
                                       if name in values and "deepinfer" in values}})
            print(table_row(results[-1], names), flush=True)
    for note in notes:
        print(f"\nleft out: {note}")
    measuring.warn_if_busy(statistics.median([entry["other_load"] for entry in results]))
    if arguments.markdown:
        rows = "\n".join(table_row(entry, names) for entry in results)
        Path(arguments.markdown).write_text(f"{heading(names)}\n{rows}\n", encoding="utf-8")
    if arguments.out:
        Path(arguments.out).write_text(json.dumps({"load_before": before, "results": results, "notes": notes}, indent=1) + "\n",
                                       encoding="utf-8")


if __name__ == "__main__":
    measuring.run_main(main)
