#!/usr/bin/env python3
"""Fails if a file of src/ includes a layer that its own layer may not use.

    check_layers.py SRC LAYERS.TXT

Reads every #include line of every C and C++ file below SRC and every CMakeLists.txt that links layers, and compares
them with LAYERS.TXT. Prints one `file:line: message` per violation. Exit status: 0 clean, 1 violations, 2 usage.
"""

import re
import sys
from pathlib import Path

SOURCE_SUFFIXES = {".h", ".hpp", ".inc", ".c", ".cc", ".cpp"}
INCLUDE_LINE = re.compile(r"^\s*#\s*(?:include|include_next|import)\b\s*(.*)$")
INCLUDE_TARGET = re.compile(r'^(?:"([^"]+)"|<([^>]+)>)')
LINKED_LAYER = re.compile(r"\bdeepinfer_([a-z_]+)\b")


def read_layers(path):
    """Returns ({layer: allowed layers, itself included}, problems)."""
    allowed, problems = {}, []
    for number, raw in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        line = raw.split("#", 1)[0].strip()
        if not line:
            continue
        name, colon, rest = line.partition(":")
        name = name.strip()
        if not colon or not re.fullmatch(r"[a-z_]+", name):
            problems.append(f"{path}:{number}: expected `layer: layers it may include`, found `{raw.strip()}`")
            continue
        if name in allowed:
            problems.append(f"{path}:{number}: {name} is listed twice")
            continue
        used = rest.split()
        for other in used:
            if other not in allowed:
                problems.append(f"{path}:{number}: {name} may only use layers listed above it, not {other}")
        allowed[name] = {name, *used}
    if not allowed and not problems:
        problems.append(f"{path}: lists no layer")
    return allowed, problems


def check_source(src, file, layer, allowed):
    problems = []
    for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        match = INCLUDE_LINE.match(line)
        if not match:
            continue
        where = f"{file}:{number}"
        target = INCLUDE_TARGET.match(match.group(1))
        if not target:
            problems.append(f"{where}: cannot tell what is included; name the file instead of a macro")
            continue
        quoted, angled = target.groups()
        name = quoted or angled
        parts = Path(name).parts
        if ".." in parts or "." in parts:
            problems.append(f"{where}: write {name} from src/, without dots")
            continue
        if parts[0] in allowed and (src / name).exists():
            if parts[0] not in allowed[layer]:
                problems.append(f"{where}: {layer} may not include {parts[0]} ({name})")
        elif quoted and (file.parent / name).exists():
            problems.append(f"{where}: write \"{name}\" from src/, as \"{(file.parent / name).relative_to(src)}\"")
    return problems


def check_links(file, layer, allowed):
    problems = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        for name in LINKED_LAYER.findall(line.split("#", 1)[0]):
            if name in allowed and name not in allowed[layer]:
                problems.append(f"{file}:{number}: {layer} may not link {name}")
    return problems


def check_tree(src, layers_file):
    """All problems of the tree, as printable lines, and the number of files read."""
    allowed, problems = read_layers(layers_file)
    files_read = 0
    for folder in sorted(p for p in src.iterdir() if p.is_dir()):
        files = sorted(p for p in folder.rglob("*") if p.is_file())
        if not files:
            continue
        layer = folder.name
        if layer not in allowed:
            problems.append(f"{folder}: layer {layer} is not listed in {layers_file}")
            continue
        for file in files:
            if file.suffix in SOURCE_SUFFIXES:
                files_read += 1
                problems += check_source(src, file, layer, allowed)
            elif file.name == "CMakeLists.txt":
                problems += check_links(file, layer, allowed)
    if files_read == 0:
        problems.append(f"{src}: no source file found, so nothing was checked")
    return problems, files_read


def main(argv):
    if len(argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    problems, files_read = check_tree(Path(argv[1]).resolve(), Path(argv[2]).resolve())
    for problem in problems:
        print(problem)
    print(f"{files_read} files read, {len(problems)} layering problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
