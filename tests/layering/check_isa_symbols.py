#!/usr/bin/env python3
"""Objects compiled for an instruction set must not define a weak function outside their own namespace: the linker keeps one of
several equal ones, perhaps this one, and code that runs on every processor would call it.

    check_isa_symbols.py NM NAMESPACE OBJECT...      NAMESPACE: such as deepinfer::kernels::avx2
"""

import re
import subprocess
import sys


def symbols(nm, options, path):
    """Lines of (type, name), in the object's order."""
    done = subprocess.run([nm, "--no-sort", "--defined-only", *options, path], capture_output=True, text=True, check=True)
    return [tuple(line[17:].split(" ", 1)) for line in done.stdout.splitlines() if line]


def foreign(nm, namespace, path):
    # Mangled names say for certain where a function is, also a lambda in a function (_ZZN...) and a template with a return type.
    nested = "".join(f"{len(part)}{part}" for part in namespace.split("::"))
    own = re.compile(r"^_Z+N[rVKRO]*" + nested)
    pairs = zip(symbols(nm, [], path), symbols(nm, ["-C"], path), strict=True)
    return [plain for (kind, name), (_, plain) in pairs if kind == "W" and not own.match(name)]


def main(nm, namespace, *objects):
    if not objects:
        sys.exit("no objects")
    bad = [(path, name) for path in objects for name in foreign(nm, namespace, path)]
    for path, name in bad:
        print(f"{path}: weak function outside {namespace}: {name}")
    if bad:
        print("Make it static, [[gnu::always_inline]], or a member of the instruction set's namespace (simd/simd.h).")
        return 1
    print(f"{len(objects)} objects")
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
