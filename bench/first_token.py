#!/usr/bin/env python3
"""What a server still knows of a prompt: time to the first token when it is new, when it comes again, and after a restart.

    first_token.py --server "ours=build/release/src/cli/deepinfer serve --model M --port {port} --cache-dir {folder}" \\
                   --server "other=llama-server -m M -c 8192 --port {port}" [--tokens 6000] [--rounds 3] [--out RESULT.json]

The servers take turns; each is alone on the machine while it is measured. {port} and {folder} stand for a free port and an empty folder
of its own, which outlives its restarts; anything with OpenAI's /v1/completions that takes token ids as prompt will do. In each round
a new prompt is sent once (cold), again (again), again to a process that was started anew after SIGTERM (restarted) and after SIGKILL
(killed), and to one more that has lost its folder (cold 2, to know how much cold differs). After the first, the tokens of one long
answer a second are counted, too (decode). The texts of all answers to the prompt must be the same.
"""

import argparse
import contextlib
import http.client
import json
import os
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time

import measuring
from mixed_load import Server

ARMS = ["cold", "again", "restarted", "killed", "cold 2"]


def named_command(text):
    name, equals, command = text.partition("=")
    words = shlex.split(command)
    if not equals or not words or "{port}" not in command:
        raise argparse.ArgumentTypeError(f"NAME=COMMAND with {{port}} in it is wanted, not {text}")
    measuring.program_path(words[0])
    return name, words


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_ready(port):
    for path in ("/readyz", "/health"):
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
            connection.request("GET", path)
            status = connection.getresponse().status
            if status != 404:
                return status == 200
    return False


class Process:
    def __init__(self, command, folder):
        self.port = free_port()
        words = [word.format(port=self.port, folder=folder) for word in command]
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(words, stdout=self.log, stderr=self.log)
        begin = time.monotonic()
        while not is_ready(self.port):
            if self.process.poll() is not None or time.monotonic() - begin > 300:
                self.log.seek(0)
                raise measuring.Failed(f"{words[0]} did not become ready:\n{self.log.read().decode(errors='replace')[-1000:]}")
            time.sleep(0.1)
        self.server = Server(f"http://127.0.0.1:{self.port}", "")
        self.server.stream([1, 2, 3], 2)  # warm

    def first_token(self, prompt):
        """Seconds, and the text of a short answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=3600)
        body = {"prompt": prompt, "max_tokens": 8, "stream": True, "temperature": 0, "ignore_eos": True}
        begin = time.monotonic()
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        seconds, text = None, ""
        for line in connection.getresponse():
            if line.startswith(b"data: {"):
                seconds = seconds or time.monotonic() - begin
                choices = json.loads(line[6:])["choices"]
                text += choices[0]["text"] if choices else ""
        if seconds is None:
            raise measuring.Failed("an answer without tokens")
        return seconds, text

    def end(self, how):
        self.process.send_signal(how)
        self.process.wait()


def one_round(command, prompt, answer_tokens):
    seconds, texts = {}, set()

    def ask(arm, process):
        seconds[arm], text = process.first_token(prompt)
        texts.add(text)

    with tempfile.TemporaryDirectory() as folder:
        process = Process(command, folder)
        ask("cold", process)
        ask("again", process)
        times = process.server.stream(prompt[:64], answer_tokens)
        seconds["decode"] = (len(times) - 1) / (times[-1] - times[0])
        time.sleep(1)
        process.end(signal.SIGTERM)
        process = Process(command, folder)
        ask("restarted", process)
        process.end(signal.SIGKILL)
        process = Process(command, folder)
        ask("killed", process)
        process.end(signal.SIGTERM)
        for entry in os.scandir(folder):
            shutil.rmtree(entry) if entry.is_dir() else os.unlink(entry)
        process = Process(command, folder)
        ask("cold 2", process)
        process.end(signal.SIGTERM)
    return seconds, len(texts) == 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", action="append", required=True, type=named_command, metavar="NAME=COMMAND")
    parser.add_argument("--tokens", type=int, default=6000)
    parser.add_argument("--answer-tokens", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=measuring.writable_path)
    args = parser.parse_args()
    load = measuring.idle_load()
    prompts = Server("http://127.0.0.1:1", "")
    results = {name: [] for name, _ in args.server}
    same = dict.fromkeys(results, True)
    for number in range(args.rounds):
        prompt = prompts.prompt(args.tokens)
        for name, command in args.server if number % 2 == 0 else reversed(args.server):
            seconds, equal = one_round(command, prompt, args.answer_tokens)
            results[name].append(seconds)
            same[name] = same[name] and equal
    print(f"seconds to the first token of {args.tokens} tokens, medians of {args.rounds}")
    print(f"{'':20}" + "".join(f"{arm:>12}" for arm in ARMS) + f"{'decode t/s':>14}  same answers")
    for name, rounds in results.items():
        median = {key: statistics.median(r[key] for r in rounds) for key in rounds[0]}
        print(f"{name:20}" + "".join(f"{median[arm]:12.3f}" for arm in ARMS) + f"{median['decode']:14.1f}  {'yes' if same[name] else 'NO'}")
        print(f"{'':20}" + "".join(f"{'1/' + format(median['cold'] / median[arm], '.1f'):>12}" for arm in ARMS))
    measuring.warn_if_busy(load)
    if args.out:
        with open(args.out, "w", encoding="utf-8") as out:
            json.dump(results, out)


if __name__ == "__main__":
    measuring.run_main(main)
