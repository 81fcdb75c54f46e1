#!/usr/bin/env python3
"""The layering check must fail on trees that break the rules, and only on those."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CHECKER = Path(__file__).with_name("check_layers.py")
LAYERS = "base:\nkernels: base\ncheckpoint: base\nmodels: base kernels checkpoint\n"


class CheckLayers(unittest.TestCase):
    def run_checker(self, files, layers=LAYERS):
        with tempfile.TemporaryDirectory(prefix="layers with space ") as folder:
            root = Path(folder)
            (root / "layers.txt").write_text(layers)
            (root / "src").mkdir()
            for name, text in files.items():
                path = root / "src" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            done = subprocess.run(
                [sys.executable, str(CHECKER), str(root / "src"), str(root / "layers.txt")],
                capture_output=True, text=True, check=False)
            return done.returncode, done.stdout

    good = {
        "base/result.h": "#pragma once\n#include <string>\n",
        "kernels/dot.h": '#include "base/result.h"\n',
        "kernels/dot.cpp": '#include "kernels/dot.h"\n#include <immintrin.h>\n',
        "checkpoint/gguf.h": '#  include "base/result.h"\n',
        "models/llama.cpp": '#include "kernels/dot.h"\n#include "checkpoint/gguf.h"\n#include "zlib.h"\n',
        "models/CMakeLists.txt": "deepinfer_layer(models DEPENDS deepinfer_kernels deepinfer_checkpoint)\n",
    }

    def expect_failure(self, extra, message, layers=LAYERS):
        code, output = self.run_checker({**self.good, **extra}, layers)
        self.assertEqual(code, 1, output)
        self.assertIn(message, output)

    def test_good_tree_passes(self):
        code, output = self.run_checker(self.good)
        self.assertEqual(code, 0, output)
        self.assertIn("5 files read, 0 layering problems", output)

    def test_upward_include(self):
        self.expect_failure({"models/llama.h": "\n", "base/bad.cpp": '\n\n  #include "models/llama.h"\n'},
                            "bad.cpp:3: base may not include models")

    def test_sideways_include(self):
        self.expect_failure({"checkpoint/bad.h": '#include "kernels/dot.h"\n'}, "checkpoint may not include kernels")

    def test_angle_brackets_do_not_hide_it(self):
        self.expect_failure({"checkpoint/bad.h": "#include <kernels/dot.h>\n"}, "checkpoint may not include kernels")

    def test_dots_do_not_hide_it(self):
        self.expect_failure({"checkpoint/bad.h": '#include "../kernels/dot.h"\n'}, "without dots")

    def test_macro_does_not_hide_it(self):
        self.expect_failure({"checkpoint/bad.h": "#include HEADER\n"}, "cannot tell what is included")

    def test_include_relative_to_its_own_folder(self):
        self.expect_failure({"kernels/bad.cpp": '#include "dot.h"\n'}, 'as "kernels/dot.h"')

    def test_unlisted_folder(self):
        self.expect_failure({"extra/new.cpp": "int x;\n"}, "layer extra is not listed")

    def test_upward_link(self):
        self.expect_failure({"base/CMakeLists.txt": "deepinfer_layer(base DEPENDS\n    deepinfer_models)\n"},
                            "base may not link models")

    def test_cycle_cannot_be_written_down(self):
        self.expect_failure({}, "may only use layers listed above it, not models",
                            "base: models\nkernels: base\ncheckpoint: base\nmodels: base kernels checkpoint\n")

    def test_empty_tree_is_not_a_pass(self):
        code, output = self.run_checker({})
        self.assertEqual(code, 1)
        self.assertIn("nothing was checked", output)


if __name__ == "__main__":
    unittest.main()
