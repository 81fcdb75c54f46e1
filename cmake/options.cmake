# Compiler settings shared by every target.
option(DEEPINFER_TESTS "Build the unit tests" ON)
option(DEEPINFER_BENCH "Build bench/kernels (needs Google Benchmark)" OFF)
option(DEEPINFER_FUZZ "Build the libFuzzer targets (needs clang)" OFF)
set(DEEPINFER_SANITIZE "" CACHE STRING "Sanitizers for everything, e.g. address,undefined or thread")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release)
endif()

# -ffp-contract=off: a*b+c is fused only where the source says fma, so every instruction set gives the same bits.
add_compile_options(-Wall -Wextra -Wshadow -Wnon-virtual-dtor -ffp-contract=off -fno-omit-frame-pointer)
# Warnings are errors with the compilers of continuous integration; a newer one may know new warnings, and a user's build
# should not fail for them. Nor where GCC instruments: its sanitizers make it see out-of-bounds accesses that are none.
if((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION MATCHES "^12\\." AND NOT DEEPINFER_SANITIZE)
   OR (CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION MATCHES "^19\\."))
    set(warnings_as_errors ON)
else()
    set(warnings_as_errors OFF)
endif()
option(DEEPINFER_WERROR "Warnings are errors" ${warnings_as_errors})
if(DEEPINFER_WERROR)
    add_compile_options(-Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)  # GCC 12 falsely warns of "text" + std::string
endif()
if(DEEPINFER_SANITIZE)
    add_compile_options(-fsanitize=${DEEPINFER_SANITIZE} -g1)
    add_link_options(-fsanitize=${DEEPINFER_SANITIZE})
    if(DEEPINFER_SANITIZE MATCHES "thread")
        add_compile_options(-Wno-error=tsan)  # GCC cannot instrument atomic_thread_fence; we use none, some headers do
    endif()
endif()

if(DEEPINFER_FUZZ)
    add_compile_options(-fsanitize=fuzzer-no-link)  # coverage feedback in every layer
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
    set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM)
    add_link_options(-fuse-ld=mold)
endif()

find_package(Threads REQUIRED)
