#!/usr/bin/env python3
"""Compares `deepinfer tokenize` with Hugging Face `tokenizers` on every stage that a tokenizer.json can have.

    compare_stages_with_hf.py --program build/release/deepinfer

Trains small BPE vocabularies with the PyPI package tokenizers, one for each of many combinations of normalizer,
pre-tokenizer, decoder and model options, and encodes and decodes difficult text with both. Exit status 1 on any difference.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers

from multilingual_text import EMOJI, generate

CL100K = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = ("[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}"
         "\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")
KIMI = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{M}]*[\p{Ll}\p{Lm}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_level(*stages, prefix=False, regex=False):
    return pre_tokenizers.Sequence([*stages, pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex)])


def metaspace(scheme, split):
    return pre_tokenizers.Metaspace(replacement="▁", prepend_scheme=scheme, split=split)


def split(pattern, behavior, invert=False):
    return pre_tokenizers.Split(pattern, behavior, invert)


LLAMA = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
LLAMA_DECODER = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
BYTES = decoders.ByteLevel()

# name: (normalizer, pre-tokenizer, decoder, model options)
CASES = {
    "GPT-2": (None, byte_level(regex=True), BYTES, {}),
    "GPT-2, prefix space": (None, byte_level(regex=True, prefix=True), BYTES, {}),
    "no regex, prefix space": (normalizers.NFC(), byte_level(prefix=True), BYTES, {}),
    "cl100k": (None, byte_level(split(Regex(CL100K), "isolated")), BYTES, {"ignore_merges": True}),
    "cl100k, removed and inverted": (None, byte_level(split(Regex(CL100K), "removed", True)), BYTES, {}),
    "o200k": (None, byte_level(split(Regex(O200K), "isolated")), BYTES, {}),
    "Kimi": (None, byte_level(split(Regex(KIMI), "isolated")), BYTES, {}),
    "digits": (normalizers.NFKC(), byte_level(pre_tokenizers.Digits(False), regex=True), BYTES, {}),
    "single digits": (normalizers.NFD(), byte_level(pre_tokenizers.Digits(True), regex=True), BYTES, {}),
    "punctuation": (normalizers.NFKD(), byte_level(pre_tokenizers.Punctuation("contiguous"), regex=True), BYTES, {}),
    "isolated punctuation": (None, byte_level(pre_tokenizers.Punctuation("isolated")), BYTES, {}),
    "punctuation to the left": (None, byte_level(pre_tokenizers.Punctuation("merged_with_previous")), BYTES, {}),
    "punctuation to the right": (None, byte_level(pre_tokenizers.Punctuation("merged_with_next")), BYTES, {}),
    "spaces to the left": (None, byte_level(split(Regex(r"\s+"), "merged_with_previous")), BYTES, {}),
    "spaces to the right": (None, byte_level(split(Regex(r"\s"), "merged_with_next")), BYTES, {}),
    "contiguous letters": (None, byte_level(split(Regex(r"\w"), "contiguous")), BYTES, {}),
    "DeepSeek LLM": (None, byte_level(split(Regex("[\r\n]"), "isolated"), split(Regex(r"\s?\p{L}+"), "isolated"), split(Regex(r"\s?\p{P}+"), "isolated"),
                                      split(Regex(r"\s+$"), "isolated"), split(Regex("[一-龥ࠀ-一가-퟿]+"), "isolated"), pre_tokenizers.Digits(True)), BYTES, {}),
    "words": (normalizers.Replace(Regex(r"\s+"), " "), byte_level(pre_tokenizers.Whitespace()), BYTES, {}),
    "white space": (None, byte_level(pre_tokenizers.WhitespaceSplit()), BYTES, {}),
    "empty matches": (None, byte_level(split(Regex(r"(?=(\d{3})+(?!\d))"), "isolated")), BYTES, {}),
    "Llama 2": (LLAMA, None, LLAMA_DECODER, {"byte_fallback": True, "unk_token": "<unk>", "fuse_unk": True}),
    "Llama 2, metaspace first": (None, metaspace("first", False), LLAMA_DECODER, {"byte_fallback": True, "unk_token": "<unk>", "fuse_unk": True}),
    "metaspace always": (None, metaspace("always", True), decoders.Metaspace("▁", "always"), {"unk_token": "<unk>", "fuse_unk": True}),
    "metaspace first, split": (None, metaspace("first", True), decoders.Metaspace("▁", "first"), {"unk_token": "<unk>"}),
    "metaspace never": (None, metaspace("never", True), decoders.Metaspace("▁", "never"), {"unk_token": "<unk>", "fuse_unk": True}),
    "Gemma": (normalizers.Replace(" ", "▁"), split(" ", "merged_with_previous"), decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]),
              {"byte_fallback": True, "unk_token": "<unk>", "fuse_unk": True}),
}
ADDED = [AddedToken("<|im_end|>", special=True), AddedToken("<tool_call>", lstrip=True, normalized=False), AddedToken("</tool_call>", rstrip=True, normalized=False),
         AddedToken("fish", single_word=True, normalized=False), AddedToken("ﬁ", normalized=True), AddedToken("e\u0301", normalized=True),
         AddedToken("<s>", special=True, lstrip=True, rstrip=True), AddedToken("    ", normalized=False)]


def known_to_any_pcre2(text: str) -> str:
    """Without what is newer than Unicode 14: patterns without a scanner of their own run on the installed PCRE2's tables."""
    newer = set("\u0cf3\u0ece\u0897\u1b4e\u1b4f\u1b7f\u1c89\u1c8a\u2427\u2428\u2429\u2ffc\u2ffd\u2ffe\u2fff\u31e4\u31e5\u31ef\ua7cb\ua7cc\ua7cd\ua7da\ua7db\ua7dc")
    emoji = set("".join(EMOJI))
    return "".join(c for c in text if c in emoji or (ord(c) < 0x10000 and c not in newer and unicodedata.category(c) != "Cn"))


PCRE2_CASES = {"cl100k, removed and inverted", "o200k", "Kimi", "spaces to the left", "contiguous letters", "words", "punctuation to the left",
               "punctuation to the right"}


def train(case, text: str) -> tokenizers.Tokenizer:
    normalizer, pre_tokenizer, decoder, options = case
    tokenizer = tokenizers.Tokenizer(models.BPE(**options))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoder
    special = ["<unk>"] + ([f"<0x{byte:02X}>" for byte in range(256)] if options.get("byte_fallback") else [])
    is_bytes = decoder is BYTES
    alphabet = pre_tokenizers.ByteLevel.alphabet() if is_bytes else list("▁abcdefghijklmnopqrstuvwxyz")
    trainer = trainers.BpeTrainer(vocab_size=3000, special_tokens=special, initial_alphabet=alphabet, limit_alphabet=600, show_progress=False, max_token_length=16)
    # Short lines: without a pre-tokenizer, a line is one word to the trainer.
    tokenizer.train_from_iterator([line[i:i + 60] for line in text.split("\n") for i in range(0, len(line), 60)], trainer)
    file = json.loads(tokenizer.to_str())
    file["added_tokens"] = []  # the byte tokens are ordinary entries, as in real files
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(file))
    tokenizer.add_tokens(ADDED)
    return tokenizer


def run(program, *arguments, stdin: str) -> str:
    done = subprocess.run([program, *map(str, arguments)], input=stdin.encode(), capture_output=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"exit status {done.returncode}: {done.stderr.decode(errors='replace')}")
    return done.stdout.decode()


def difference(ours, reference) -> str | None:
    if ours == reference:
        return None
    at = next((i for i, (a, b) in enumerate(zip(ours, reference)) if a != b), min(len(ours), len(reference)))
    return f"at {at}: ours {ours[max(0, at - 3):at + 8]!r}, reference {reference[max(0, at - 3):at + 8]!r}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--only")
    arguments = parser.parse_args()
    training = generate(150_000, seed=1)[:-10_000]
    text = generate(150_000, seed=2)
    rng = random.Random(3)
    spellings = [token.content for token in ADDED] + [" fish ", "fishes", " <tool_call>", "</tool_call>\n ", "<s> ", "cafe\u0301", "ﬁsh"]
    whole_text = "".join(piece + rng.choice(spellings) for piece in (text[i:i + 400] for i in range(0, len(text), 400)))
    failed = 0
    for name, case in CASES.items():
        if arguments.only and arguments.only != name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tokenizer.json"
            tokenizer = train(case, training)
            text = known_to_any_pcre2(whole_text) if name in PCRE2_CASES else whole_text
            tokenizer.save(str(path))
            reference = tokenizer.encode(text, add_special_tokens=False).ids
            ours = json.loads(run(arguments.program, "tokenize", "--special", "--model", path, stdin=text))
            problem = difference(ours, reference)
            if not problem:
                # The reference decodes added tokens with `normalized` to their normalised form.
                skipped = {tokenizer.token_to_id(token.content) for token in ADDED if token.normalized}
                reference = [i for i in reference if i not in skipped]
                decoded = run(arguments.program, "detokenize", "--model", path, stdin=json.dumps(reference))
                problem = difference(decoded, tokenizer.decode(reference, skip_special_tokens=False))
                problem = problem and "text " + problem
        print(f"{name:32} {'DIFFERENT ' + problem if problem else f'{len(reference)} ids and their text equal'}")
        failed += problem is not None
    print(f"{failed} of {len(CASES)} cases differ")
    return 1 if failed else 0


sys.exit(main())
