#!/bin/sh
# Installs the alternatives that batchfs is benchmarked against: peers.sh DIR dali|stores
#
# PyTorch, torchvision and Pillow come from Debian's packages, since PyTorch's own contain
# gigabytes for GPUs, and so does rclone. What Debian does not package is installed in a virtual
# environment in DIR, which can also use Debian's modules: NVIDIA DALI (dali), or the loaders that
# read from object stores (stores). What cannot be installed is reported here, and the benchmark
# skips it with the reason.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh

dir=$1
system=/usr/bin/python3
[ -x $system ] || system=python3

has() { "$1" -c "import $2" >/dev/null 2>&1; }

# pip ARGUMENT...: shows its output only if it fails.
pip() {
	log=$(mktemp)
	result=0
	"$dir/bin/python3" -m pip install -q --retries 1 "$@" >"$log" 2>&1 || result=$?
	[ $result = 0 ] || cat "$log" >&2
	rm -f "$log"
	return $result
}

missing=
for module in numpy torch torchvision; do
	has $system $module || missing="$missing python3-$module"
done
has $system PIL || missing="$missing python3-pil"
has $system ensurepip || missing="$missing python3-venv"
[ "$2" = dali ] || command -v rclone >/dev/null 2>&1 || missing="$missing rclone fuse3"
# shellcheck disable=SC2086 # a list of words
[ -z "$missing" ] || want $missing

if [ ! -x "$dir/bin/python3" ]; then
	rm -rf "$dir"
	if ! $system -m venv --system-site-packages "$dir"; then
		echo 'peers: error: no virtual environment could be made' >&2
		exit 1
	fi
fi

case $2 in
	dali)
		if ! has "$dir/bin/python3" nvidia.dali; then
			echo "installing NVIDIA DALI into $dir, about 1 GB"
			pip nvidia-dali-cuda120 || pip nvidia-dali-cuda130 || echo 'peers: NVIDIA DALI could not be installed' >&2
		fi
		;;
	stores)
		# Only what these need to read from S3: all their dependencies would be gigabytes.
		"$dir/bin/python3" -c 'import boto3, braceexpand, webdataset, catalogue, s3torchconnector, brotli, filelock, snappy, tqdm, xxhash, zstd' 2>/dev/null ||
			{ echo "installing loaders for object stores into $dir, about 100 MB" &&
				pip --no-deps webdataset mosaicml-streaming s3torchconnector s3torchconnectorclient braceexpand catalogue &&
				pip boto3 brotli filelock python-snappy tqdm 'xxhash<4' zstd; } ||
			echo 'peers: not all loaders could be installed' >&2
		;;
	*)
		echo "peers: error: unknown alternatives $2" >&2
		exit 2
		;;
esac
