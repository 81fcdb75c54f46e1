#!/usr/bin/env python3
"""Writes tests/vectors/dequantize.json: stored blocks of every tensor type and the floats they mean.

Random bytes with finite f16 scales, plus all-zero and all-one bits (MXFP4 may overflow to infinity); the floats come from the dequantisation
in the PyPI package `gguf` (0.19.0), written independently in numpy.   pip install gguf==0.19.0 && make_dequantize_vectors.py
Format: {type name: {"blocks": hex, "values": hex of little-endian float32}}.
"""
import json
import pathlib

import gguf
import numpy as np

# Byte offsets of the f16 scale fields in one block.
SCALES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "IQ4_NL": [0], "MXFP4": [],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
}


def finite_f16(rng, count):
    bits = rng.integers(0, 1 << 16, count, dtype=np.uint16)
    bits[(bits & 0x7C00) == 0x7C00] &= 0x83FF  # infinities and NaN become subnormal
    return bits


def blocks_of(name, rng):
    qtype = gguf.GGMLQuantizationType[name]
    values, size = gguf.GGML_QUANT_SIZES[qtype]
    if name == "F32":
        return rng.standard_normal(64).astype("<f4").view(np.uint8)
    if name == "F16":
        return np.concatenate([finite_f16(rng, 60), [0, 0x8000, 0x7BFF, 1]]).astype("<u2").view(np.uint8)
    if name == "BF16":
        return np.concatenate([rng.standard_normal(60).astype("<f4").view("<u4") >> 16, [0, 0x8000, 0x7F7F, 1]]).astype("<u2").view(np.uint8)
    count = 12 if values == 32 else 5
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    blocks[0], blocks[1] = 0, 255
    if name == "MXFP4":
        blocks[2:6, 0] = [0, 1, 2, 254]  # subnormal and extreme exponents
    for offset in SCALES[name]:
        scale = finite_f16(rng, count)
        scale[0], scale[1] = 0x3C00, 0xBC00  # 1 and -1 over all-zero and all-one bits
        blocks[:, offset:offset + 2] = scale.astype("<u2").view(np.uint8).reshape(count, 2)
    return blocks.reshape(-1)


def main():
    rng = np.random.default_rng(20)
    out = {}
    for name in ["F32", "F16", "BF16", *SCALES]:
        blocks = blocks_of(name, rng)
        values = gguf.quants.dequantize(blocks if name != "F32" else blocks.view("<f4"), gguf.GGMLQuantizationType[name])
        values = np.asarray(values, dtype="<f4").reshape(-1)
        assert not np.isnan(values).any()
        out[name] = {"blocks": blocks.tobytes().hex(), "values": values.tobytes().hex()}
    path = pathlib.Path(__file__).parent.parent / "vectors" / "dequantize.json"
    path.write_text(json.dumps(out, indent=0) + "\n")
    print(path, path.stat().st_size, "bytes")


main()
