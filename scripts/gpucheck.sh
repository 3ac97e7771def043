#!/bin/sh
# Makes a folder that checks a GPU on any machine: gpucheck.sh FOLDER [BATCHFS]
#
# FOLDER/run needs only what every Debian has, and begins with its instructions. BATCHFS is a binary
# that is already built.
set -eu
cd "$(dirname "$0")/.."

folder=$1
most=60 # MB
mkdir -p "$folder"
if [ $# -gt 1 ]; then cp "$2" "$folder/batchfs"; else scripts/build.sh "$folder/batchfs"; fi
TESTS=1 scripts/build.sh "$folder/gpucheck" ./integration/gpucheck
for program in batchfs gpucheck; do
	strip "$folder/$program"
	gzip -3nf "$folder/$program" # half the time of the default, and 5 % larger
done
cp scripts/gpucheck-run.sh "$folder/run"
size=$(du -sm --apparent-size "$folder" | cut -f1)
if [ "$size" -gt $most ]; then
	echo "gpucheck: error: $folder has $size MB, and may have $most" >&2
	exit 1
fi
