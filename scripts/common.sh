# shellcheck shell=bash
# What ./run, ./test and .ci/run share: messages, progress, configuring and building. Sourced, never executed.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
LOGS=$ROOT/build/logs
# Messages go to stderr, so that `./run logits … > file` holds the program's output alone.
if [ -t 2 ]; then INTERACTIVE=1; else INTERACTIVE=; fi

say() { printf '%s\n' "$*" >&2; }
die() {
    printf '%s: error: ' "$(basename "$0")" >&2
    printf '%s\n' "$@" >&2
    exit 1
}

# progress LABEL DONE TOTAL: a bar on a terminal, a line for each tenth elsewhere. A total of 100 means per cent.
progress_shown=
progress() {
    local label=$1 done=$2 total=$3 filled count=
    ((total > 0)) || return 0
    if ((total != 100)); then count=" ($done/$total)"; fi
    if [ "$INTERACTIVE" ]; then
        filled=$((done * 40 / total))
        printf '\r%-22s [%s%s] %3d %%%s' "$label" "$(repeat '#' "$filled")" "$(repeat ' ' $((40 - filled)))" \
            $((done * 100 / total)) "$count" >&2
        progress_shown=bar
    elif [ "$progress_shown" != "$label$((done * 10 / total))" ]; then
        progress_shown=$label$((done * 10 / total))
        say "$label: $((done * 100 / total)) %$count"
    fi
}
progress_end() {
    if [ "$progress_shown" = bar ]; then printf '\n' >&2; fi
    progress_shown=
}
repeat() {
    local text
    printf -v text '%*s' "$2" ''
    printf '%s' "${text// /$1}"
}

# Compilers of this code need up to 1.5 GB each: fewer jobs than cores where memory is short.
parallel_jobs() {
    local cores memory_kb jobs
    cores=$(nproc)
    memory_kb=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
    jobs=$((memory_kb / 1500000))
    ((jobs < 1)) && jobs=1
    echo $((jobs < cores ? jobs : cores))
}

# configure PRESET [CMAKE ARGUMENTS…]: does nothing in a build folder that is already configured this way.
configure() {
    local preset=$1 log=$LOGS/configure-$1.log stamp=$ROOT/build/$1/.configured-as wanted
    shift
    # CMake itself notices changed lists, but neither changed presets nor changed defaults of options.
    wanted=$(printf '%s\n' "$*" && cat "$ROOT/CMakePresets.json" "$ROOT/cmake/options.cmake" | sha256sum)
    if [ -f "$ROOT/build/$preset/build.ninja" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then return 0; fi
    mkdir -p "$LOGS"
    say "Configuring build/$preset"
    if ! cmake -S "$ROOT" --preset "$preset" --fresh "$@" >"$log" 2>&1; then
        grep -v '^-- ' "$log" | tail -n 40 >&2 || true
        die "cmake failed; the whole log is $log"
    fi
    printf '%s\n' "$wanted" >"$stamp"
}
# The arguments that configure got for this preset last.
configured_as() { head -n 1 "$ROOT/build/$1/.configured-as" 2>/dev/null || true; }

# build PRESET [TARGETS…]: builds quietly; on failure shows the first error.
build() {
    local preset=$1 log=$LOGS/build-$1.log first
    shift
    mkdir -p "$LOGS"
    if NINJA_STATUS='@%f/%t ' ninja -C "$ROOT/build/$preset" -j "$(parallel_jobs)" "$@" 2>&1 | tee "$log" |
        show_build_progress "Building $preset"; then
        return 0
    fi
    first=$(grep -n -m 1 -E '^FAILED:|^ninja: error' "$log" | cut -d : -f 1 || true)
    tail -n "+${first:-1}" "$log" | grep -v '^@' | head -n 60 >&2 || true
    die "the build of build/$preset failed; the whole log is $log"
}
# Ninja counts two steps even when there is nothing to do but look for new files.
show_build_progress() {
    local line
    while IFS= read -r line; do
        if [[ $line =~ ^@([0-9]+)/([0-9]+)\  ]] && ((BASH_REMATCH[2] > 2)); then progress "$1" "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"; fi
    done
    progress_end
}

# One build at a time in a checkout: ninja does not guard its folder itself. Released by unlock_build or at exit.
lock_build() {
    mkdir -p "$ROOT/build"
    exec 9>"$ROOT/build/.lock"
    if ! flock -n 9; then
        say "Waiting for another ./run or ./test in this folder"
        flock 9
    fi
}
unlock_build() { exec 9>&-; }
