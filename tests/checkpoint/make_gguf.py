#!/usr/bin/env python3
"""Writes the small GGUF models of tests/oracle/gguf with the PyPI package `gguf` (0.19.0):

  llama-bf16.gguf, gemma3-bf16.gguf  the reference models of tests/oracle, weights bit-identical, with the changes that GGUF files
                                     have by convention: llama's query and key rows interleaved for rotation of adjacent
                                     pairs, its rope scaling as factors in rope_freqs.weight, gemma's norm weights plus one.
  all_types/all_types.gguf           a random llama (hidden 256, 2 layers, vocabulary 64) in which every tensor type occurs;
  all_types/model.safetensors        the same weights in F16. The block scales are powers of two, so F16 holds every value.

    pip install gguf==0.19.0 safetensors==0.8.0 && tests/checkpoint/make_gguf.py
"""
import json
import math
import pathlib

import gguf
import numpy as np

ORACLE = pathlib.Path(__file__).resolve().parent.parent / "oracle"
OUT = ORACLE / "gguf"
T = gguf.GGMLQuantizationType


# --- safetensors, read and written by hand: numpy has no bfloat16 ---

def read_safetensors(path):
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    out = {}
    for name, entry in json.loads(raw[8:8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        assert entry["dtype"] == "BF16", name
        bits = np.frombuffer(raw[8 + length + begin:8 + length + end], "<u2").reshape(entry["shape"])
        out[name] = (bits.astype("<u4") << 16).view("<f4")
    return out


def write_safetensors(path, tensors):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F16", "shape": list(tensor.shape), "data_offsets": [offset, offset + tensor.nbytes]}
        offset += tensor.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(t.tobytes() for t in tensors.values()))


# --- names and conventions ---

LAYER_NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
}


def gguf_name(name, arch):
    fixed = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
             "lm_head.weight": "output.weight"}
    if name in fixed:
        return fixed[name]
    _, _, layer, rest = name.split(".", 3)
    rest = rest.removesuffix(".weight")
    names = dict(LAYER_NAMES)
    if arch == "gemma3":
        names |= {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
                  "post_feedforward_layernorm": "post_ffw_norm"}
    else:
        names["post_attention_layernorm"] = "ffn_norm"
    return f"blk.{layer}.{names[rest]}.weight"


def interleave(rows, heads):
    """Row (head, half, i) of the halves convention becomes (head, i, half)."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def separate(rows, heads):
    """The inverse of interleave."""
    return rows.reshape(heads, rows.shape[0] // heads // 2, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def llama3_factors(rope, head_dim):
    """Divisors of the rotation frequencies, "llama3" rope scaling as Meta published it with Llama 3.1."""
    base, factor = rope["rope_theta"], rope["factor"]
    low, high, original = rope["low_freq_factor"], rope["high_freq_factor"], rope["original_max_position_embeddings"]
    factors = []
    for i in range(0, head_dim, 2):
        wavelength = 2 * math.pi * base ** (i / head_dim)
        if wavelength < original / high:
            factors.append(1.0)
        elif wavelength > original / low:
            factors.append(factor)
        else:
            smooth = (original / wavelength - low) / (high - low)
            factors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(factors, "<f4")


def start(path, arch, config):
    writer = gguf.GGUFWriter(path, arch)
    writer.add_name(path.stem)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("none")
    return writer


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add(writer, name, values, qtype):
    data = gguf.quants.quantize(values, qtype) if qtype != T.F32 else values.astype("<f4")
    writer.add_tensor(name, data, raw_dtype=qtype)


# --- the reference models ---

def reference_llama():
    config = json.loads((ORACLE / "llama/config.json").read_text())
    writer = start(OUT / "llama-bf16.gguf", "llama", config)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_tensor("rope_freqs.weight", llama3_factors(config["rope_parameters"], config["head_dim"]))
    for name, values in read_safetensors(ORACLE / "llama/model.safetensors").items():
        if name.endswith("q_proj.weight"):
            values = interleave(values, config["num_attention_heads"])
        if name.endswith("k_proj.weight"):
            values = interleave(values, config["num_key_value_heads"])
        add(writer, gguf_name(name, "llama"), values, T.BF16 if values.ndim == 2 else T.F32)
    finish(writer)


def reference_gemma3():
    config = json.loads((ORACLE / "gemma3/config.json").read_text())
    rope = config["rope_parameters"]
    writer = start(OUT / "gemma3-bf16.gguf", "gemma3", config)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    writer.add_sliding_window(config["sliding_window"])
    writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config["layer_types"]])
    writer.add_attention_scale(config["query_pre_attn_scalar"] ** -0.5)
    writer.add_rope_freq_base(rope["full_attention"]["rope_theta"])
    writer.add_rope_freq_base_swa(rope["sliding_attention"]["rope_theta"])
    writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    writer.add_rope_scaling_factor(rope["full_attention"]["factor"])
    for name, values in read_safetensors(ORACLE / "gemma3/model.safetensors").items():
        if "norm" in name:
            values = values + np.float32(1)
        add(writer, gguf_name(name, "gemma3"), values, T.BF16 if values.ndim == 2 else T.F32)
    finish(writer)


# --- the model of all types ---

def put_f16(blocks, offset, values):
    blocks[:, offset:offset + 2] = values.astype("<f2").view(np.uint8).reshape(-1, 2)


def random_blocks(rng, qtype, rows, columns, deviation):
    """Blocks of random values about zero, of about the wanted standard deviation, with powers of two as block scales."""
    block_values, block_bytes = gguf.GGML_QUANT_SIZES[qtype]
    count = rows * columns // block_values
    blocks = rng.integers(0, 256, (count, block_bytes), dtype=np.uint8)
    # Standard deviation of the integers that a block's scale multiplies.
    spread = {T.Q4_0: 4.6, T.Q4_1: 4.6, T.Q5_0: 9.2, T.Q5_1: 9.2, T.Q8_0: 74, T.IQ4_NL: 70, T.MXFP4: 5,
              T.Q2_K: 9, T.Q3_K: 40, T.Q4_K: 25, T.Q5_K: 100, T.Q6_K: 600}[qtype]
    exponent = round(math.log2(deviation / spread)) + rng.integers(-1, 2, count)
    d = np.exp2(exponent.astype("<f4"))
    if qtype == T.MXFP4:
        blocks[:, 0] = exponent + 128
    elif qtype in (T.Q4_1, T.Q5_1):
        put_f16(blocks, 0, d)
        put_f16(blocks, 2, -d * (8 if qtype == T.Q4_1 else 16))
    elif qtype == T.Q2_K:  # scale s and minimum about 1.5 s in a nibble each
        scale = rng.integers(4, 10, (count, 16), dtype=np.uint8)
        blocks[:, :16] = scale | (scale * 3 // 2) << 4
        put_f16(blocks, 80, d)
        put_f16(blocks, 82, d)
    elif qtype == T.Q3_K:
        put_f16(blocks, 108, d)
    elif qtype in (T.Q4_K, T.Q5_K):  # scale s and minimum about 7.5 s, or 15.5 s at four times the unit
        scale = rng.integers(4, 9, (count, 8), dtype=np.uint8)
        minimum = scale * 15 // 2 if qtype == T.Q4_K else scale * 31 // 8
        blocks[:, 4:8], blocks[:, 8:12] = scale[:, :4], minimum[:, :4]
        blocks[:, 12:16] = (scale[:, 4:] & 15) | (minimum[:, 4:] & 15) << 4
        blocks[:, 4:8] |= (scale[:, 4:] >> 4) << 6
        blocks[:, 8:12] |= (minimum[:, 4:] >> 4) << 6
        put_f16(blocks, 0, d)
        put_f16(blocks, 2, d if qtype == T.Q4_K else 4 * d)
    elif qtype == T.Q6_K:  # |scale| <= 63 keeps the products in the 11 bits of F16
        blocks[:, 192:208] = rng.integers(-63, 64, (count, 16)).astype(np.int8).view(np.uint8)
        put_f16(blocks, 208, d)
    else:
        put_f16(blocks, 0, d)
    return blocks.reshape(rows, -1)


LAYER_TYPES = [
    {"q_proj": T.Q2_K, "k_proj": T.Q3_K, "v_proj": T.Q4_K, "o_proj": T.Q8_0, "gate_proj": T.Q5_K, "up_proj": T.Q6_K, "down_proj": T.Q4_0},
    {"q_proj": T.Q4_1, "k_proj": T.Q5_0, "v_proj": T.Q5_1, "o_proj": T.IQ4_NL, "gate_proj": T.MXFP4, "up_proj": T.F16, "down_proj": T.BF16},
]


def all_types():
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "attention_bias": False, "mlp_bias": False,
        "vocab_size": 64, "hidden_size": 256, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 32, "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}, "bos_token_id": 0, "eos_token_id": 1, "dtype": "float16",
    }
    folder = OUT / "all_types"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    rng = np.random.default_rng(11)
    writer = start(folder / "all_types.gguf", "llama", config)
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    weights = {}

    def matrix(name, qtype, rows, columns, heads=0):
        deviation = 1 if name.startswith("model.embed") else 1 / math.sqrt(columns)
        if qtype in (T.F16, T.BF16):  # eight bits of mantissa: exact in both
            values = (rng.integers(-127, 128, (rows, columns)) * 2.0 ** round(math.log2(deviation / 74))).astype("<f4")
            data = gguf.quants.quantize(values, qtype)
        else:
            data = random_blocks(rng, qtype, rows, columns, deviation)
            values = gguf.quants.dequantize(data, qtype)
        half = values.astype("<f2")
        assert np.array_equal(half.astype("<f4"), values) and 0.4 < values.std() / deviation < 2.5, (name, values.std(), deviation)
        writer.add_tensor(gguf_name(name, "llama"), data, raw_dtype=qtype)
        weights[name] = np.ascontiguousarray(separate(half, heads)) if heads else half

    def norm(name):
        values = (1 + rng.integers(-64, 65, 256) / 256).astype("<f2")
        writer.add_tensor(gguf_name(name, "llama"), values.astype("<f4"))
        weights[name] = values

    matrix("model.embed_tokens.weight", T.Q6_K, 64, 256)
    for layer, types in enumerate(LAYER_TYPES):
        prefix = f"model.layers.{layer}."
        norm(prefix + "input_layernorm.weight")
        for part, rows, columns, heads in [("q_proj", 64, 256, 2), ("k_proj", 32, 256, 1), ("v_proj", 32, 256, 0), ("o_proj", 256, 64, 0)]:
            matrix(f"{prefix}self_attn.{part}.weight", types[part], rows, columns, heads)
        norm(prefix + "post_attention_layernorm.weight")
        for part, rows, columns in [("gate_proj", 64, 256), ("up_proj", 64, 256), ("down_proj", 256, 64)]:
            matrix(f"{prefix}mlp.{part}.weight", types[part], rows, columns)
    norm("model.norm.weight")
    matrix("lm_head.weight", T.Q5_K, 64, 256)
    finish(writer)
    write_safetensors(folder / "model.safetensors", weights)


OUT.mkdir(exist_ok=True)
reference_llama()
reference_gemma3()
all_types()
for path in sorted(OUT.rglob("*.*")):
    print(path.relative_to(OUT), path.stat().st_size)
