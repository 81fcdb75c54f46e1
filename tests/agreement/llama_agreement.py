#!/usr/bin/env python3
"""How often deepinfer's most likely token is the one that llama.cpp chose, on the same file.

For each prompt llama.cpp (llama-server) generates greedily; deepinfer then reads prompt and continuation (teacher
forcing) and gives its logits at every position. A position disagrees if deepinfer's argmax is another token. Two
engines that round differently must disagree where the two best tokens are nearly equal, so the figure that matters is
the share of positions that disagree although the best two logits differ by `--gap` (0.05) or more in both engines.

    llama_agreement.py --llama-server BIN --deepinfer BIN --model FILE [--model FILE ...] [--out RESULT.json]

Needs numpy. Exit status: 0 if every model's share is at most --max-share, else 1.
"""

import argparse
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np

from prompts import all_prompts


class LlamaServer:
    def __init__(self, binary, model, threads, log):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        # float32 cache and no fused attention: the closest to plain arithmetic that it offers.
        self.process = subprocess.Popen(
            [binary, "-m", model, "--host", "127.0.0.1", "--port", str(self.port), "-c", "2048", "-np", "1",
             "-t", str(threads), "-ctk", "f32", "-ctv", "f32", "-fa", "off"],
            stdout=log, stderr=subprocess.STDOUT)

    def __enter__(self):
        for _ in range(600):
            if self.process.poll() is not None:
                raise RuntimeError(f"llama-server ended with status {self.process.returncode}")
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=2):
                    return self
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        raise RuntimeError("llama-server did not become ready")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def post(self, path, body):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as response:
            return json.load(response)

    def tokenize(self, text):
        return self.post("/tokenize", {"content": text, "add_special": True, "parse_special": True})["tokens"]

    def greedy(self, prompt, count):
        """Token ids, and the difference of the two best log probabilities at each of them."""
        answer = self.post("/completion", {
            "prompt": prompt, "n_predict": count, "temperature": 0, "n_probs": 2, "return_tokens": True,
            "cache_prompt": False})
        tokens, gaps, entries = answer["tokens"], [], answer["completion_probabilities"]
        # It leaves out the probabilities of tokens that end inside a UTF-8 sequence: those get the gap None.
        for token in tokens:
            if entries and entries[0]["id"] == token:
                best = sorted((top["logprob"] for top in entries.pop(0)["top_logprobs"]), reverse=True)
                gaps.append(best[0] - best[1])
            else:
                gaps.append(None)
        if entries:
            raise RuntimeError("llama-server reports two different continuations")
        return tokens, gaps


def our_logits(binary, model, tokens, last, compute):
    """float32 array [last, vocabulary]."""
    done = subprocess.run(
        [binary, "logits", "--model", model, "--tokens", ",".join(map(str, tokens)), "--last", str(last),
         "--compute", compute, "--json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"deepinfer logits failed ({done.returncode}): {done.stderr.strip()}")
    # Read row by row with numpy: with a vocabulary of 262144 a general JSON parser needs gigabytes.
    start = done.stdout.index("[[", done.stdout.index('"logits"')) + 2
    rows = done.stdout[start:done.stdout.index("]]", start)].split("]")
    array = np.stack([np.array(row.lstrip(", [\n").split(","), dtype=np.float32) for row in rows])
    if array.shape[0] != last:
        raise RuntimeError(f"asked deepinfer for {last} positions, got {array.shape[0]}")
    return array


def compare_model(arguments, model, log):
    positions, differing, per_prompt, errors = 0, [], [], []
    with LlamaServer(arguments.llama_server, model, arguments.threads, log) as server:
        has_chatml = len(server.post("/tokenize", {"content": "<|im_end|>", "parse_special": True})["tokens"]) == 1
        for index, (kind, text) in enumerate(all_prompts(has_chatml)):
            prompt = server.tokenize(text)
            chosen, their_gaps = server.greedy(prompt, arguments.tokens)
            if not chosen:
                raise RuntimeError(f"llama.cpp generated nothing for prompt {index}")
            logits = our_logits(arguments.deepinfer, model, prompt + chosen, len(chosen) + 1, arguments.compute)[:-1]
            ours = logits.argmax(axis=1)
            top_two = -np.partition(-logits, 1, axis=1)[:, :2]
            for position, token in enumerate(chosen):
                if int(ours[position]) != token:
                    differing.append({
                        "prompt": index, "position": position, "llama_token": token, "our_token": int(ours[position]),
                        "our_gap": float(top_two[position, 0] - top_two[position, 1]),
                        "our_distance": float(logits[position, ours[position]] - logits[position, token]),
                        "llama_gap": their_gaps[position]})
                elif their_gaps[position] is not None:
                    errors.append(abs(float(top_two[position, 0] - top_two[position, 1]) - their_gaps[position]))
            positions += len(chosen)
            per_prompt.append({"kind": kind, "prompt_tokens": len(prompt), "compared": len(chosen)})
    def near_tie(entry):
        return min(gap for gap in (entry["our_gap"], entry["llama_gap"]) if gap is not None) < arguments.gap

    unexplained = [entry for entry in differing if not near_tie(entry)]
    return {
        "model": Path(model).name, "compute": arguments.compute, "prompts": len(per_prompt), "positions": positions,
        "agree": positions - len(differing), "differ_near_tie": len(differing) - len(unexplained),
        "differ_clear": len(unexplained), "differ_clear_share": len(unexplained) / positions,
        "gap_threshold": arguments.gap,
        # How far the two engines' top-two distances lie apart where they agree: the size of their rounding difference.
        "gap_difference_median": float(np.median(errors)), "gap_difference_p99": float(np.quantile(errors, 0.99)),
        "differing": differing, "per_prompt": per_prompt}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-server", required=True)
    parser.add_argument("--deepinfer", required=True)
    parser.add_argument("--model", action="append", required=True)
    parser.add_argument("--tokens", type=int, default=64, help="greedy tokens per prompt")
    parser.add_argument("--gap", type=float, default=0.05)
    parser.add_argument("--max-share", type=float, default=0.03)
    parser.add_argument("--compute", choices=["f32", "serve"], default="f32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", help="write the whole result as JSON")
    parser.add_argument("--server-log", default="/dev/null")
    arguments = parser.parse_args()

    results = []
    with open(arguments.server_log, "w", encoding="utf-8") as log:
        for model in arguments.model:
            result = compare_model(arguments, model, log)
            results.append(result)
            print(f"{result['model']} ({result['compute']}): {result['agree']} of {result['positions']} positions agree"
                  f" on {result['prompts']} prompts; {result['differ_near_tie']} differ within a gap of"
                  f" {arguments.gap}, {result['differ_clear']} ({100 * result['differ_clear_share']:.2f} %) beyond it;"
                  f" top-two distances lie {result['gap_difference_median']:.3f} apart (median;"
                  f" p99 {result['gap_difference_p99']:.3f})", flush=True)
    if arguments.out:
        Path(arguments.out).write_text(json.dumps(results, indent=1), encoding="utf-8")
    return 0 if all(result["differ_clear_share"] <= arguments.max_share for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
