#!/bin/sh
# Installs the alternatives that batchfs is benchmarked against: peers.sh DIR
#
# PyTorch, torchvision and Pillow come from Debian's packages, since PyTorch's own contain
# gigabytes for GPUs. Debian does not package NVIDIA DALI; it is installed in a virtual
# environment in DIR, which can also use Debian's modules. What cannot be installed is
# reported here, and the benchmark skips it with the reason.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh

dir=$1
system=/usr/bin/python3
[ -x $system ] || system=python3

has() { "$1" -c "import $2" >/dev/null 2>&1; }

missing=
for module in numpy torch torchvision; do
	has $system $module || missing="$missing python3-$module"
done
has $system PIL || missing="$missing python3-pil"
has $system ensurepip || missing="$missing python3-venv"
# shellcheck disable=SC2086 # a list of words
[ -z "$missing" ] || want $missing

if [ ! -x "$dir/bin/python3" ]; then
	rm -rf "$dir"
	if ! $system -m venv --system-site-packages "$dir"; then
		echo 'peers: error: no virtual environment could be made' >&2
		exit 1
	fi
fi

if ! has "$dir/bin/python3" nvidia.dali; then
	echo "installing NVIDIA DALI into $dir, about 1 GB"
	log=$(mktemp)
	if ! "$dir/bin/python3" -m pip install -q --retries 1 nvidia-dali-cuda120 >"$log" 2>&1 &&
		! "$dir/bin/python3" -m pip install -q --retries 1 nvidia-dali-cuda130 >>"$log" 2>&1; then
		cat "$log" >&2
		echo 'peers: NVIDIA DALI could not be installed' >&2
	fi
	rm -f "$log"
fi
