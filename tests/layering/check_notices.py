#!/usr/bin/env python3
"""Fails if NOTICE does not name a library that CMake looks for in src/ or a crate of rust/Cargo.lock.

    check_notices.py ROOT
"""

import re
import sys
from pathlib import Path

NOT_LINKED = {"threads", "pkgconfig", "python3"}
CMAKE_LIBRARY = re.compile(r"^\s*(?:find_package|pkg_check_modules)\((\w+)", re.MULTILINE)
CRATE = re.compile(r'^name = "([^"]+)"', re.MULTILINE)


def linked(root):
    names = set()
    for lists in [*root.glob("src/**/CMakeLists.txt"), *root.glob("cmake/*.cmake")]:
        names |= {name.lower() for name in CMAKE_LIBRARY.findall(lists.read_text(encoding="utf-8"))}
    crates = set(CRATE.findall((root / "rust/Cargo.lock").read_text(encoding="utf-8")))
    return (names - NOT_LINKED) | (crates - {"deepinfer-rust"})


def main(root):
    notice = (root / "NOTICE").read_text(encoding="utf-8").lower()
    names = linked(root)
    missing = sorted(name for name in names if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", notice))
    for name in missing:
        print(f"NOTICE does not name {name}")
    print(f"{len(names)} libraries, {len(missing)} without a notice")
    return 1 if missing or len(names) < 5 else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
