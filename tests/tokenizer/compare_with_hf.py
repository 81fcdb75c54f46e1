#!/usr/bin/env python3
"""Compares `deepinfer tokenize` and `detokenize` with Hugging Face `tokenizers` on 1 MB of multilingual text.

    compare_with_hf.py --program build/release/deepinfer MODEL...

MODEL is a GGUF file, for which a tokenizer.json is built from the file's own metadata, or a tokenizer.json. Needs the
PyPI packages tokenizers and gguf. Compared are: ids with special tokens recognised, ids of plain text (only white space
and HTML tags are recognised, see src/tokenizer/tokenizer.h), ids that our reader of tokenizer.json gives, and the text of
the ids and of random ids. Exit status 1 on any difference.
"""

import argparse
import copy
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import tokenizers

from gguf_to_tokenizer_json import build
from multilingual_text import generate

HTML = ["a", "b", "blockquote", "body", "caption", "code", "div", "em", "footer", "h1", "h2", "h3", "h4", "h5", "h6", "html", "i", "iframe", "img", "li", "span",
        "strong", "sub", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "u", "ul"]
TAGS = {f"<{slash}{name}>" for slash in ("", "/") for name in HTML}


def run(program, *arguments, stdin: bytes) -> bytes:
    done = subprocess.run([program, *map(str, arguments)], input=stdin, capture_output=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{arguments}: exit status {done.returncode}: {done.stderr.decode(errors='replace')}")
    return done.stdout


def plain_variant(file: dict) -> dict:
    """The same tokenizer without the added tokens that belong to prompt formats."""
    file = copy.deepcopy(file)
    sentencepiece = file["decoder"]["type"] != "ByteLevel"
    file["added_tokens"] = [token for token in file["added_tokens"] if not token["special"] and
                            (token["content"].replace("▁", " ").strip() == "" or (sentencepiece and token["content"] in TAGS))]
    return file


def check_ids(what: str, ours: list[int], reference: list[int], hf: tokenizers.Tokenizer) -> bool:
    if ours == reference:
        print(f"  {what}: {len(ours)} ids equal")
        return True
    at = next((i for i, (a, b) in enumerate(zip(ours, reference)) if a != b), min(len(ours), len(reference)))
    print(f"  {what}: DIFFERENT at {at}: ours {ours[at:at + 8]} {[hf.id_to_token(i) for i in ours[at:at + 8]]}, "
          f"reference {reference[at:at + 8]} {[hf.id_to_token(i) for i in reference[at:at + 8]]}")
    return False


def decodable(ids: list[int], hf: tokenizers.Tokenizer) -> list[int]:
    """Drops byte tokens: the reference turns every byte of an invalid run into U+FFFD, also the valid ones."""
    return [i for i in ids if (token := hf.id_to_token(i)) is not None and not (len(token) == 6 and token.startswith("<0x"))]


def compare(program: str, model: pathlib.Path, text: str, folder: pathlib.Path) -> bool:
    print(model)
    file = json.loads(model.read_text(encoding="utf-8")) if model.suffix == ".json" else build(model)
    as_json = folder / "tokenizer.json"
    as_json.write_text(json.dumps(file, ensure_ascii=False), encoding="utf-8")
    hf = tokenizers.Tokenizer.from_file(str(as_json))
    start = time.perf_counter()
    reference = hf.encode(text, add_special_tokens=False).ids
    seconds = time.perf_counter() - start
    print(f"  reference: {len(text.encode()) / seconds / 1e6:.2f} MB/s")
    data = text.encode()
    ours = json.loads(run(program, "tokenize", "--special", "--model", model, stdin=data))
    ok = check_ids("special tokens recognised", ours, reference, hf)
    ours = json.loads(run(program, "tokenize", "--special", "--model", as_json, stdin=data))
    ok &= check_ids("the same from tokenizer.json", ours, reference, hf)
    plain = tokenizers.Tokenizer.from_str(json.dumps(plain_variant(file)))
    ours = json.loads(run(program, "tokenize", "--model", model, stdin=data))
    ok &= check_ids("plain text", ours, plain.encode(text, add_special_tokens=False).ids, hf)

    rng = random.Random(7)
    noise = [rng.randrange(hf.get_vocab_size()) for _ in range(20000)]
    if file["decoder"]["type"] != "ByteLevel":
        noise = decodable(noise, hf)
    noise = [i for i in noise if hf.id_to_token(i) is not None]
    for what, ids in (("text of the ids", reference), ("text of random ids", noise)):
        expected = hf.decode(ids, skip_special_tokens=False)
        got = run(program, "detokenize", "--model", model, stdin=json.dumps(ids).encode()).decode()
        if got == expected:
            print(f"  {what}: {len(got)} characters equal")
        else:
            at = next((i for i, (a, b) in enumerate(zip(got, expected)) if a != b), min(len(got), len(expected)))
            print(f"  {what}: DIFFERENT at {at}: ours {got[at:at + 20]!r}, reference {expected[at:at + 20]!r}")
            ok = False
    return ok


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    text = generate()
    ok = True
    for model in arguments.models:
        with tempfile.TemporaryDirectory() as folder:
            ok &= compare(arguments.program, model, text, pathlib.Path(folder))
    print("all equal" if ok else "FAILED")
    return 0 if ok else 1


sys.exit(main())
