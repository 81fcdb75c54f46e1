# shellcheck shell=bash
# Distribution packages: what building and testing need, on Debian 12, Debian 13 and Ubuntu 24.04. Sourced after common.sh.

RUST_MINIMUM=1.85 # asked for by indexmap and hashbrown, which the template crate uses (rust/Cargo.lock)

# version_at_least HAVE WANT
version_at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }
have() { command -v "$1" >/dev/null 2>&1; }
# The version apt would install, without epoch and revision; empty if there is none.
candidate() { apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: \([0-9]*:\)\{0,1\}\([0-9.]*\).*/\2/p'; }
codename() { (. /etc/os-release 2>/dev/null && echo "${VERSION_CODENAME:-}"); }

# Lines of packages that building needs; tools count as present when the command is there, wherever it comes from.
build_packages() {
    local boost=
    have cmake || echo cmake
    have ninja || echo ninja-build
    have g++ || echo g++
    have curl || echo curl
    have python3 || echo python3
    have pkg-config || echo pkg-config
    # Boost 1.81 or newer. Debian 12 has it beside its default 1.74, which it replaces.
    if [ "$(codename)" = bookworm ]; then boost=1.81; fi
    printf '%s\n' "libboost$boost-dev" ca-certificates libssl-dev libcli11-dev libpcre2-dev libutf8proc-dev libxxhash-dev libhiredis-dev
    rust_packages
}

# What ./test needs besides.
test_packages() {
    have clang++-19 || echo clang-19
    have clang-format-19 || echo clang-format-19
    have clang-tidy-19 || echo clang-tidy-19
    have llvm-symbolizer-19 || echo llvm-19
    have shellcheck || echo shellcheck
    python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
    have redis-server || echo redis-server
    printf '%s\n' libgtest-dev libbenchmark-dev libclang-rt-19-dev
}

# The packages of a Rust toolchain, if there is none that is new enough; sets CARGO and RUSTC for the build where needed.
rust_version() { "$1" --version 2>/dev/null | sed -n 's/^cargo \([0-9.]*\).*/\1/p'; }
rust_packages() {
    local found
    if find_rust; then return 0; fi
    if version_at_least "$(candidate cargo-web)" "$RUST_MINIMUM"; then
        printf '%s\n' cargo-web rustc-web
    elif version_at_least "$(candidate cargo)" "$RUST_MINIMUM"; then
        printf '%s\n' cargo rustc
    else
        found=$(apt-cache search --names-only '^cargo-[0-9.]+$' 2>/dev/null | cut -d ' ' -f 1 | sort -V | tail -n 1 || true)
        if [ "$found" ] && version_at_least "${found#cargo-}" "$RUST_MINIMUM"; then
            printf '%s\n' "$found" "rustc-${found#cargo-}"
        else
            echo rust-missing
        fi
    fi
}
# Puts a cargo that is new enough first in PATH, or names it in CARGO and RUSTC; fails if there is none.
find_rust() {
    local cargo
    for cargo in cargo "$HOME/.cargo/bin/cargo" /usr/bin/cargo; do
        version_at_least "$(rust_version "$cargo")" "$RUST_MINIMUM" || continue
        case $cargo in */*) export PATH="${cargo%/*}:$PATH" ;; esac
        return 0
    done
    cargo=$(compgen -G '/usr/bin/cargo-1.*' | sort -V | tail -n 1 || true)
    if [ "$cargo" ] && version_at_least "$(rust_version "$cargo")" "$RUST_MINIMUM"; then
        export CARGO=$cargo RUSTC=/usr/bin/rustc-${cargo##*/cargo-}
        return 0
    fi
    return 1
}

# Those of its arguments that are not installed.
missing_packages() {
    local present package
    present=" $(dpkg-query -W -f='${db:Status-Abbrev}${binary:Package}\n' "$@" 2>/dev/null |
        sed -n 's/^ii  *\([^: ]*\).*/\1/p' | tr '\n' ' ' || true) " # dpkg-query fails when one is unknown
    for package in "$@"; do
        case $present in *" $package "*) ;; *) echo "$package" ;; esac
    done
}

# install_packages LIST_FUNCTIONS…: installs what the lists name and is missing. Says so first.
install_packages() {
    local wanted missing sudo=() removed answer
    if ! have apt-get || ! have dpkg-query; then
        say "This is no Debian or Ubuntu: install what scripts/packages.sh lists by your own means. Trying to build."
        find_rust || true
        return 0
    fi
    mapfile -t wanted < <(for list in "$@"; do "$list"; done)
    mapfile -t missing < <(missing_packages "${wanted[@]}")
    if ((${#missing[@]} == 0)); then
        find_rust || true
        return 0
    fi
    mkdir -p "$LOGS"
    if [ "$(id -u)" != 0 ]; then
        have sudo || die "these packages are needed, and only root can install them (there is no sudo here):" \
            "  apt-get install ${missing[*]}"
        sudo=(sudo)
    fi
    say "Updating the package lists"
    "${sudo[@]}" apt-get update >"$LOGS/apt-update.log" 2>&1 || say "  apt-get update reported problems: $LOGS/apt-update.log"
    # Only now are all candidates known, so the choice may differ from the first one.
    mapfile -t wanted < <(for list in "$@"; do "$list"; done)
    mapfile -t missing < <(missing_packages "${wanted[@]}")
    case " ${missing[*]} " in *" rust-missing "*)
        die "Rust $RUST_MINIMUM or newer is needed, and this distribution's packages have none." \
            "Install one from https://rustup.rs and run this again." ;;
    esac
    say "Installing packages: ${missing[*]}"
    removed=$("${sudo[@]}" apt-get install -s --no-install-recommends "${missing[@]}" 2>/dev/null |
        sed -n 's/^Remv \([^ ]*\) \[\([^]]*\)\].*/\1 (\2)/p' | paste -s -d , - || true)
    if [ "$removed" ]; then
        say "  They replace packages that cannot be installed beside them, which are removed: $removed"
        if [ -t 0 ] && [ "$INTERACTIVE" ]; then
            read -r -p "  Go on? [y/N] " answer
            case $answer in y* | Y*) ;; *) die "nothing was installed" ;; esac
        fi
    fi
    if ! "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -o APT::Status-Fd=3 install \
        --no-install-recommends "${missing[@]}" 3>&1 >"$LOGS/apt-install.log" 2>&1 </dev/null | show_apt_progress; then
        tail -n 15 "$LOGS/apt-install.log" >&2
        die "the packages could not be installed; the whole log is $LOGS/apt-install.log"
    fi
    find_rust || die "no Rust $RUST_MINIMUM or newer was found after installing ${missing[*]}"
}
show_apt_progress() {
    local kind percent
    while IFS=: read -r kind _ percent _; do
        percent=${percent%%.*}
        case $kind in
            dlstatus) progress "Downloading packages" "${percent:-0}" 100 ;;
            pmstatus) progress "Installing packages" "${percent:-0}" 100 ;;
        esac
    done
    progress_end
}
