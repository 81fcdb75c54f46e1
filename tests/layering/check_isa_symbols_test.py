#!/usr/bin/env python3
"""The check of the instruction sets' objects must fail on weak functions outside their namespace, and only on those.

    check_isa_symbols_test.py CXX NM
"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CHECKER = Path(__file__).with_name("check_isa_symbols.py")
CXX, NM = sys.argv[1:3]
OWN = """
namespace deepinfer::kernels::avx2 {
struct Rows { [[gnu::noinline]] int count() const { return n; } int n; };
template <class T> [[gnu::noinline]] int twice(T&& f) { return f() + f(); }
static int helper(int n) { return n; }
inline int walk(int n) { return twice([&] { return helper(n); }); }
int gemm(int n) { return Rows{walk(n)}.count(); }
}
"""


class CheckIsaSymbols(unittest.TestCase):
    def run_checker(self, *sources):
        with tempfile.TemporaryDirectory(prefix="symbols with space ") as folder:
            objects = []
            for i, source in enumerate(sources):
                path = Path(folder) / f"{i}.cpp"
                path.write_text(source)
                objects.append(str(path.with_suffix(".o")))
                subprocess.run([CXX, "-std=c++20", "-O0", "-c", str(path), "-o", objects[-1]], check=True)
            done = subprocess.run([sys.executable, str(CHECKER), NM, "deepinfer::kernels::avx2", *objects],
                                  capture_output=True, text=True, check=False)
            return done.returncode, done.stdout

    def expect_failure(self, source, name):
        code, output = self.run_checker(OWN, source)
        self.assertEqual(code, 1, output)
        self.assertIn(name, output)

    def test_own_functions_pass(self):
        code, output = self.run_checker(OWN, "static int f() { return 1; } int g() { return f(); }")
        self.assertEqual(code, 0, output)

    def test_shared_function(self):
        self.expect_failure("namespace deepinfer::kernels { inline int size() { return 1; } }\n"
                            "int f() { return deepinfer::kernels::size(); }", "deepinfer::kernels::size()")

    def test_member_of_a_shared_template(self):
        self.expect_failure("namespace deepinfer::kernels { template <int F> struct Block { static int at() { return F; } }; }\n"
                            "int f() { return deepinfer::kernels::Block<3>::at(); }", "Block<3>::at()")

    def test_standard_template(self):
        self.expect_failure("#include <algorithm>\nint f(int a, int b) { return std::max(a, b); }", "std::max<int>")

    def test_other_instruction_set(self):
        for name in "avx512", "avx22", "avx2_bf16":
            self.expect_failure(f"namespace deepinfer::kernels::{name} {{ inline int size() {{ return 1; }} }}\n"
                                f"int f() {{ return deepinfer::kernels::{name}::size(); }}", f"{name}::size()")

    def test_template_of_others_with_own_arguments(self):
        self.expect_failure("namespace deepinfer::kernels::avx2 { struct F {}; }\n"
                            "template <class T> int g(T) { return 1; }\n"
                            "int f() { return g(deepinfer::kernels::avx2::F()); }", "int g<deepinfer::kernels::avx2::F>")

    def test_no_objects_is_a_failure(self):
        code, _ = self.run_checker()
        self.assertNotEqual(code, 0)

    def test_missing_object_is_a_failure(self):
        done = subprocess.run([sys.executable, str(CHECKER), NM, "a::b", "/nowhere.o"], capture_output=True, check=False)
        self.assertNotEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
