"""Builds, from nothing but a GGUF file's metadata, the tokenizer.json that Hugging Face `tokenizers` would use.

Needs the PyPI package gguf. Only the kinds of tokenizers that the packaged models have.
"""

import gguf

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)

GPT2_DIGITS = [{"type": "Digits", "individual_digits": True}, {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]


def split_then_bytes(pattern: str) -> list[dict]:
    return [{"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}]


TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PRE_TOKENIZERS = {
    "smollm": GPT2_DIGITS,
    "qwen2": split_then_bytes(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|" + TAIL),
    "llama-bpe": split_then_bytes(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + TAIL),
}


class Metadata:
    def __init__(self, path):
        self.fields = gguf.GGUFReader(path).fields

    def get(self, key, default=None):
        field = self.fields.get("tokenizer.ggml." + key)
        if field is None:
            return default
        if field.types[0] != gguf.GGUFValueType.ARRAY:
            return field.contents()
        if field.types[-1] == gguf.GGUFValueType.STRING:
            return [bytes(field.parts[i]).decode() for i in field.data]
        return [field.parts[i][0].item() for i in field.data]


def added_tokens(tokens, types):
    return [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": kind != USER_DEFINED}
            for i, (token, kind) in enumerate(zip(tokens, types)) if kind in (CONTROL, USER_DEFINED, UNKNOWN)]


def merges_from_scores(tokens, types, scores):
    """Every way to cut a token into two tokens, best score first: what SentencePiece does implicitly."""
    usable = {token: i for i, (token, kind) in enumerate(zip(tokens, types)) if kind in (NORMAL, USER_DEFINED)}
    merges = []
    for token, i in usable.items():
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in usable and right in usable:
                merges.append((-scores[i], len(left), i, left, right))
    merges.sort(key=lambda merge: merge[:3])
    return [[left, right] for *_, left, right in merges]


def build(path) -> dict:
    data = Metadata(path)
    tokens = data.get("tokens")
    types = data.get("token_type")
    added = added_tokens(tokens, types)
    if data.get("model") == "gpt2":
        # Ids must not have holes: `tokenizers` numbers added tokens that are not in the vocabulary from its end.
        vocab = {token: i for i, token in enumerate(tokens) if types[i] != UNUSED}
        pre = data.get("pre")
        return {
            "version": "1.0", "added_tokens": added,
            "normalizer": {"type": "NFC"} if pre == "qwen2" else None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": PRE_TOKENIZERS[pre]},
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "ignore_merges": pre == "llama-bpe", "vocab": vocab,
                      "merges": [merge.split(" ") for merge in data.get("merges")]},
        }
    assert data.get("model") == "llama", data.get("model")
    prefix = data.get("add_space_prefix", True)
    vocab = {token: i for i, token in enumerate(tokens)}
    normalizers = ([{"type": "Prepend", "prepend": "▁"}] if prefix else []) + [{"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]
    decoders = [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    if prefix:
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return {
        "version": "1.0", "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": {"type": "BPE", "dropout": None, "unk_token": tokens[data.get("unknown_token_id", 0)], "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False, "vocab": vocab,
                  "merges": merges_from_scores(tokens, types, data.get("scores"))},
    }
