#!/usr/bin/env python3
"""Compares `deepinfer tokenize` with the golden tokenisations that llama.cpp keeps beside its vocabulary files.

    golden_vocabularies.py --program build/release/deepinfer --folder .../llama.cpp/models

The folder (ggml-vocab-*.gguf with .inp and .out) is in the source package of llama-cpp-python and is not part of this
project. Prints one line for every vocabulary: how many texts agree, or why the tokenizer refuses the file. Exit status 1
if any text differs, or if one of the vocabularies that must be supported is refused.
"""

import argparse
import json
import pathlib
import subprocess
import sys

SEPARATOR = "\n__ggml_vocab_test__\n"
# Not ours: WordPiece and Unigram models.
MAY_BE_REFUSED = {"bert-bge", "nomic-bert-moe", "aquila"}


def tokenize(program: str, model: pathlib.Path, text: str) -> list[int]:
    run = subprocess.run([program, "tokenize", "--model", model], input=text.encode(), capture_output=True, check=False)
    if run.returncode != 0:
        raise RuntimeError(run.stderr.decode(errors="replace").strip())
    return json.loads(run.stdout)


def compare(program: str, model: pathlib.Path) -> str | None:
    """Returns what is wrong, or nothing."""
    name = model.stem.removeprefix("ggml-vocab-")
    inputs = pathlib.Path(str(model) + ".inp")
    outputs = pathlib.Path(str(model) + ".out")
    try:
        tokenize(program, model, "hello")
    except RuntimeError as error:
        print(f"{name:16} refused: {error}")
        return None if name in MAY_BE_REFUSED else f"{name} is refused"
    if not inputs.exists():
        print(f"{name:16} loads; there are no golden tokenisations for it")
        return None
    texts = inputs.read_text(encoding="utf-8").split(SEPARATOR)
    expected = [[int(id) for id in line.split()] for line in outputs.read_text().rstrip("\n").split("\n")]
    if len(texts) == len(expected) + 1 and texts[-1] == "":
        texts.pop()
    if len(texts) != len(expected):
        return f"{name}: {len(texts)} texts but {len(expected)} tokenisations"
    wrong = 0
    for text, ids in zip(texts, expected):
        ours = tokenize(program, model, text)
        if ours != ids:
            wrong += 1
            print(f"{name}: {text!r}\n  golden {ids}\n  ours   {ours}")
    print(f"{name:16} {len(texts) - wrong} of {len(texts)} texts agree")
    return f"{name}: {wrong} texts differ" if wrong else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--folder", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    models = sorted(arguments.folder.glob("ggml-vocab-*.gguf"))
    if not models:
        print(f"no ggml-vocab-*.gguf in {arguments.folder}", file=sys.stderr)
        return 2
    problems = [problem for model in models if (problem := compare(arguments.program, model))]
    for problem in problems:
        print("FAILED:", problem)
    return 1 if problems else 0


sys.exit(main())
