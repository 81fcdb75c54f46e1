#!/usr/bin/env python3
"""Latency of a server under mixed load: does a long prompt hold up others?

    mixed_load.py --url http://127.0.0.1:8080 [--long 30000] [--beside 16000] [--short 200] [--count 20] [--out RESULT.json]

Any server with OpenAI's /v1/completions that takes token ids as prompt will do. Three measurements, each against the server
alone on the machine:

    short   time to first token of `count` prompts of `short` tokens, one every `--every` seconds: alone, and while a prompt
            of `long` tokens is computed
    stream  time between tokens of an answer of its own: idle, and while a prompt of `beside` tokens is computed
    long    seconds of the long prompt with nobody beside it

Prompts are random token ids, so that nothing is in a cache.
"""

import argparse
import http.client
import json
import random
import statistics
import threading
import time
import urllib.parse

import measuring


class Server:
    def __init__(self, url, model):
        parts = urllib.parse.urlparse(url)
        self.address, self.model = (parts.hostname, parts.port or 80), model
        self.random = random.Random(1)

    def prompt(self, tokens):
        return [self.random.randrange(1000, 20000) for _ in range(tokens)]

    def stream(self, prompt, max_tokens, on_token=None, stop=None):
        """Times of the tokens, in seconds from the request; ends early when `stop` is set."""
        connection = http.client.HTTPConnection(*self.address, timeout=3600)
        body = {"prompt": prompt, "max_tokens": max_tokens, "stream": True, "temperature": 0, "ignore_eos": True}
        if self.model:
            body["model"] = self.model
        begin = time.monotonic()
        try:
            connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise measuring.Failed(f"no answer from {self.address[0]}:{self.address[1]}: {error}") from error
        if response.status != 200:
            raise SystemExit(f"status {response.status}: {response.read(500)!r}")
        times = []
        for line in response:
            if line.startswith(b"data: {"):
                times.append(time.monotonic() - begin)
                if on_token:
                    on_token()
            if line.startswith(b"data: [DONE]") or (stop and stop.is_set()):
                break
        connection.close()
        return times


def quantile(values, q):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def short_prompts(server, args):
    results, threads = [], []
    for _ in range(args.count):
        prompt = server.prompt(args.short)
        threads.append(threading.Thread(target=lambda p=prompt: results.append(server.stream(p, 4)[0])))
        threads[-1].start()
        time.sleep(args.every)
    for thread in threads:
        thread.join()
    return results


def in_background(server, tokens):
    """Starts a prompt; the returned function waits for its first token and gives the seconds."""
    result = []
    thread = threading.Thread(target=lambda: result.append(server.stream(server.prompt(tokens), 1)[0]))
    thread.start()

    def wait():
        thread.join()
        return result[0]
    return wait, thread


def gaps(times):
    return [b - a for a, b in zip(times, times[1:])]


def measure(server, args):
    server.stream(server.prompt(64), 8)  # warm
    out = {}
    alone = short_prompts(server, args)
    out["short_alone_p95"] = quantile(alone, 0.95)
    wait, thread = in_background(server, args.long)
    time.sleep(1)
    beside = short_prompts(server, args)
    out["long_was_still_computed"] = thread.is_alive()
    out["short_beside_p95"] = quantile(beside, 0.95)
    out["long_beside_seconds"] = wait()
    out["long_alone_seconds"] = in_background(server, args.long)[0]()

    idle = gaps(server.stream(server.prompt(64), 150))
    out["gap_idle_median"], out["gap_idle_p99"] = statistics.median(idle), quantile(idle, 0.99)
    stop, stamps, result = threading.Event(), [], []
    stream = threading.Thread(target=lambda: result.append(
        server.stream(server.prompt(64), args.stream_tokens, lambda: stamps.append(time.monotonic()), stop)))
    stream.start()
    while len(stamps) < 20:
        time.sleep(0.01)
    begin = time.monotonic()
    out["beside_prompt_seconds"] = in_background(server, args.beside)[0]()
    end = time.monotonic()
    stop.set()
    stream.join()
    during = gaps([t for t in stamps if begin + 0.05 <= t <= end])
    out["gap_beside_median"], out["gap_beside_p99"] = statistics.median(during), quantile(during, 0.99)
    out["gaps_beside"] = len(during)
    out["short_ratio"] = out["short_beside_p95"] / out["short_alone_p95"]
    out["gap_ratio"] = out["gap_beside_p99"] / out["gap_idle_p99"]
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--model", default="")
    parser.add_argument("--long", type=int, default=30000)
    parser.add_argument("--beside", type=int, default=16000)
    parser.add_argument("--short", type=int, default=200)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--every", type=float, default=1.0, help="seconds between short prompts")
    parser.add_argument("--stream-tokens", type=int, default=20000)
    parser.add_argument("--out", type=measuring.writable_path)
    args = parser.parse_args()
    out = measure(Server(args.url, args.model), args)
    text = json.dumps(out, indent=1)
    print(text)
    if args.out:
        with open(args.out, "w", encoding="utf-8") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    measuring.run_main(main)
