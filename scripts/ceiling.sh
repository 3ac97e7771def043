#!/bin/sh
# Builds the bare C program that the benchmarks compare with: ceiling.sh OUTPUT
#
# It decodes PNG files with libspng, or with libpng if libspng is unavailable.
set -eu
cd "$(dirname "$0")/.."
. scripts/libraries.sh
. scripts/packages.sh

has_header spng.h || want libspng-dev
if has_header spng.h; then
	png='-DHAVE_SPNG -lspng'
else
	echo 'ceiling: libspng is not there: C decodes PNG files with libpng' >&2
	png=-lpng
fi
mkdir -p "$(dirname "$1")"
# shellcheck disable=SC2086 # a list of words
"$CC" -O2 -o "$1" cmd/bench/ceiling/ceiling.c -ljpeg $png -lpthread
