#!/bin/sh
# Builds batchfs, or another of its programs: build.sh OUTPUT [PACKAGE]
#
# Links the image libraries statically if the system has their archives, so that the binary needs
# only libc; otherwise dynamically. CGO_ENABLED=0 builds without them, with Go's own decoders, and
# without GPUs. TAGS adds build tags. LINKER, if given, links instead of the compiler. TESTS=1
# builds the tests of the package, as a program.
set -eu
cd "$(dirname "$0")/.."
. scripts/libraries.sh

output=$1
if ! command -v go >/dev/null 2>&1; then
	echo 'build: error: go is not installed' >&2
	echo 'build: hint: https://go.dev/doc/install' >&2
	exit 1
fi

if [ "${CGO_ENABLED:-1}" != 0 ]; then
	missing=
	if has_compiler; then missing=$(missing_headers); else missing=compiler; fi
	if [ -n "$missing" ]; then
		# shellcheck disable=SC2086 # a list of words
		printf 'build: error: not found: %s\nbuild: hint: %s\nbuild: hint: or without them, on slower decoders: CGO_ENABLED=0 make build\n' \
			"${missing% }" "$(install_command $missing)" >&2
		exit 1
	fi
	TAGS="${TAGS:-} $(static_tags)"
	use_cuda
	export CGO_ENABLED=1
	# NVML's binding tells the linker to ignore undefined symbols and to export every
	# C function. Undo both.
	linker='-Wl,--no-export-dynamic -Wl,--unresolved-symbols=report-all'
fi

# The version is the tag or commit, wherever git answers.
stamp=false
if git rev-parse HEAD >/dev/null 2>&1; then stamp=true; fi

mkdir -p "$(dirname "$output")"
[ -e "$output" ] || echo "building $output: about a minute the first time"
if [ -n "${TESTS:-}" ]; then set -- "$1" "$2" test -c; else set -- "$1" "${2:-./cmd/batchfs}" build; fi
package=$2
shift 2
go "$@" -trimpath -buildvcs=$stamp -tags "${TAGS:-}" ${linker:+-ldflags "${LINKER:+-extld=$LINKER} -extldflags '$linker'"} -o "$output" "$package"
