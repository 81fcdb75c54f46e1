#!/usr/bin/env python3
"""Speed of the codec beside the deepseek-recipe wheel of PyPI: tokenising on one thread, and streaming through each protocol.

    codec.py --program build/release/bench/codec_bench --tokenizer TOKENIZER.json --python PYTHON_WITH_DEEPSEEK_RECIPE
             [--rounds 5] [--json OUT.json] TEXT...

TOKENIZER.json is that of DeepSeek V4; the texts are files of about a MiB, the first of which is streamed, too (20 000 tokens). Programs
take turns; medians. The wheel is called from Python, which costs something for every call: both one token a call and 64 are measured,
and every event is turned into JSON text. Each text is encoded a second time in a process before it is measured, since the wheel keeps
words that it has seen.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

import measuring

WHEEL = r'''
import json, sys, time
import deepseek_recipe as r
tokenizer = r.Tokenizer.from_file(sys.argv[1])
encoding = r.DeepseekV4Encoding().with_tokenizer(tokenizer)
out = {"encode": {}, "stream": {}}
ids = None
for path in sys.argv[2:]:
    text = open(path, encoding="utf-8").read()
    conversation = r.Conversation([r.UserMessage(text)], thinking_mode=False)
    encoding.encode(conversation)
    start = time.perf_counter()
    tokens = encoding.encode(conversation)
    out["encode"][path] = {"seconds": time.perf_counter() - start, "bytes": len(text.encode()), "tokens": len(tokens)}
    ids = ids or tokenizer.encode(text)
while len(ids) < 20000: ids = ids + ids
ids = ids[:20000]
opening = tokenizer.encode("\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n<｜DSML｜ parameter name=\"k\" string=\"true\">")
def generator(protocol, thinking):
    if protocol == "messages": return r.MessagesChunkGenerator("resp-1", "m", thinking)
    body = {"model": "DeepSeek-V4-Pro"}
    if protocol == "chat":
        body |= {"messages": [{"role": "user", "content": "x"}], "stream": True,
                 "thinking": {"type": "enabled" if thinking else "disabled"}}
        return r.ChatCompletionRequest.chunk_generator(r.ChatCompletionRequest(body).convert(r.ConversionOptions()), "resp-1", "m")
    body |= {"input": "x", "stream": True, "reasoning": {"effort": "high" if thinking else "none"}}
    return r.ResponsesRequest.chunk_generator(r.ResponsesRequest(body).convert(r.ConversionOptions()), "resp-1", "m")
for protocol in ("chat", "messages", "responses"):
    for kind in ("content", "reasoning", "arguments"):
        for at_once in (1, 64):
            stage = r.ThinkingInitialStage.ReasoningStart if kind == "reasoning" else None
            options = r.ParsingOptions(parse_tool_calls=kind == "arguments", thinking_initial_stage=stage)
            processor = r.StreamProcessor(generator(protocol, kind == "reasoning"), options, tokenizer)
            processor.push(r.InferenceChunk.ready(prompt_usage=r.PromptUsage(prompt_tokens=100)))
            if kind == "arguments": processor.push(r.InferenceChunk.tokens(opening))
            chunks = [r.InferenceChunk.tokens(ids[i:i + at_once]) for i in range(0, len(ids), at_once)]
            start = time.perf_counter()
            for chunk in chunks:
                for event in processor.push(chunk): event.to_json()
            for event in processor.finish(): event.to_json()
            out["stream"][f"{protocol} {kind} {at_once}"] = (time.perf_counter() - start) / len(ids)
print(json.dumps(out))
'''


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=os.environ | {"TOKENIZERS_PARALLELISM": "false"})
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, type=measuring.program_path)
    parser.add_argument("--tokenizer", required=True, type=measuring.model_path)
    parser.add_argument("--python", default=sys.executable, type=measuring.program_path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=measuring.writable_path)
    parser.add_argument("texts", nargs="+", type=measuring.model_path)
    options = parser.parse_args()
    ours, theirs = [], []
    for _ in range(options.rounds):
        ours.append(run([options.program, options.tokenizer, *options.texts]))
        theirs.append(run([options.python, "-c", WHEEL, options.tokenizer, *options.texts]))
    print("| | deepinfer | deepseek-recipe | ratio of medians (of pairs) |\n|---|---|---|---|")

    def row(name, unit, scale, values):
        a, b = ([value(run) for run in runs] for value, runs in ((values, ours), (values, theirs)))
        ratios = sorted(y / x for x, y in zip(a, b))
        first, second = statistics.median(a), statistics.median(b)
        print(f"| {name} | {scale(first):.3g} {unit} | {scale(second):.3g} {unit} | "
              f"{second / first:.1f}x ({ratios[0]:.1f} to {ratios[-1]:.1f}) |")

    for path in options.texts:
        size = ours[0]["encode"][path]["bytes"]
        row(f"tokenise {os.path.basename(path)}", "MB/s", lambda s, size=size: size / s / 1e6,
            lambda run, path=path: run["encode"][path]["seconds"])
    for name in ours[0]["stream"]:
        row(f"stream {name} a call", "µs a token", lambda s: s * 1e6, lambda run, name=name: run["stream"][name])
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"deepinfer": ours, "deepseek-recipe": theirs}, file, indent=1)


measuring.run_main(main)
