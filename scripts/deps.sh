#!/bin/sh
# Installs missing dependencies on Debian and Ubuntu: deps.sh [build] [mount] [test] [nightly]
#
# nightly stands for what make nightly needs in addition to make test: 1.6 GB. If nothing is
# missing, the network is not used. Dependencies of only some tests are optional: without them,
# those tests are skipped with a message. On other systems nothing is installed; build.sh names what
# is missing.
set -eu
cd "$(dirname "$0")/.."
. scripts/libraries.sh

needed=
wanted=
need() { needed="$needed $*"; }
want() { wanted="$wanted $*"; }

# has_module MODULE: whether Python finds it. Importing it would take seconds.
has_module() {
	/usr/bin/python3 -c 'import importlib.util, sys; sys.exit(not importlib.util.find_spec(sys.argv[1]))' "$1" >/dev/null 2>&1
}

for purpose in "$@"; do
	case $purpose in
		build)
			[ "${CGO_ENABLED:-1}" != 0 ] || continue
			if has_compiler; then
				for library in $(missing_headers); do need "$(package_of "$library")"; done
			else
				for library in compiler libjpeg libpng libwebp libdeflate zlib; do need "$(package_of "$library")"; done
			fi
			;;
		mount)
			# Root can mount without it.
			[ "$(id -u)" = 0 ] || command -v fusermount3 >/dev/null 2>&1 || need fuse3
			;;
		test)
			command -v fusermount3 >/dev/null 2>&1 || want fuse3
			command -v fio >/dev/null 2>&1 || want fio
			for module in numpy torch torchvision; do has_module "$module" || want "python3-$module"; done
			has_module ensurepip || want python3-venv
			;;
		nightly)
			# shellcheck disable=SC2086,SC2154 # two words, from libraries.sh
			has_msan || want $msan_packages # and compiles the GPU's kernels
			;;
		*)
			echo "deps: error: unknown purpose $purpose" >&2
			exit 2
			;;
	esac
done

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# install PACKAGE...: shows the output of apt-get only if it fails.
install() {
	log=$(mktemp)
	if DEBIAN_FRONTEND=noninteractive as_root apt-get install -y --no-install-recommends "$@" >"$log" 2>&1; then
		rm -f "$log"
		return 0
	fi
	cat "$log" >&2
	rm -f "$log"
	return 1
}

if [ -n "$needed$wanted" ] && command -v apt-get >/dev/null 2>&1; then
	echo "installing:$needed$wanted"
	# Packages may be found even with old lists.
	as_root apt-get update -qq >/dev/null 2>&1 || echo 'deps: the package lists could not be updated' >&2
	if [ -n "$needed" ]; then
		# shellcheck disable=SC2086 # lists of words
		if ! install $needed; then
			echo "deps: error: could not install$needed" >&2
			exit 1
		fi
	fi
	# One by one: some systems do not have all of them.
	for package in $wanted; do
		install "$package" || echo "deps: could not install $package; some tests will be skipped" >&2
	done
fi

# Debian does not package the safetensors library. It is installed in a virtual environment
# beside the binary, which can also use Debian's modules.
modules() {
	if [ ! -x bin/python/bin/python3 ] || ! bin/python/bin/python3 -c 'import safetensors' >/dev/null 2>&1; then
		if ! { /usr/bin/python3 -m venv --system-site-packages bin/python && bin/python/bin/python3 -m pip install -q --retries 1 safetensors; } >/dev/null 2>&1; then
			rm -rf bin/python
			echo 'deps: could not install the safetensors library for Python; tests against it will be skipped' >&2
		fi
	fi
	# pycocotools, as its wheels want the NumPy that Debian has.
	if [ -x bin/python/bin/python3 ] && ! bin/python/bin/python3 -c 'import pycocotools' >/dev/null 2>&1 &&
		! bin/python/bin/python3 -m pip install -q --retries 1 --no-deps 'pycocotools<2.0.8' >/dev/null 2>&1; then
		echo 'deps: could not install pycocotools; tests against it will be skipped' >&2
	fi
	if ! scripts/wheel.sh >/dev/null 2>&1; then
		echo 'deps: could not install what builds a wheel; its test will be skipped' >&2
	fi
}

# NVIDIA's headers, to compare ours with, and its assembler: 100 MB. They need no GPU, and nothing
# of them goes into a program.
cuda() {
	if ! { ls bin/cuda/nvidia/*/bin/ptxas && [ -f bin/cuda/nvidia/cuda_runtime/include/cuda.h ] && [ -f bin/cuda/nvidia/nvjpeg/include/nvjpeg.h ]; } >/dev/null 2>&1; then
		rm -rf bin/cuda
		if ! bin/python/bin/python3 -m pip install -q --retries 1 --no-deps --target bin/cuda nvidia-cuda-runtime-cu12==12.9.79 nvidia-cuda-nvcc-cu12==12.9.86 \
			nvidia-nvjpeg-cu12==12.4.0.76 >/dev/null 2>&1; then
			rm -rf bin/cuda
			echo "deps: could not install CUDA's headers and assembler; their tests will be skipped" >&2
		fi
	fi
}

frameworks() {
	[ ! -e bin/frameworks/complete ] || return 0
	rm -rf bin/frameworks
	echo 'installing the frameworks of examples/ into bin/frameworks: 1 GB'
	if ! scripts/frameworks.sh bin/frameworks >/dev/null 2>&1; then
		rm -rf bin/frameworks
		echo 'deps: could not install them; the examples will not be run' >&2
	fi
}

servers() {
	[ ! -x bin/servers/versitygw ] || [ ! -x bin/servers/fake-gcs-server ] || return 0
	echo 'installing object stores to test against into bin/servers: 260 MB, a few minutes'
	if ! scripts/servers.sh bin/servers >/dev/null 2>&1; then
		echo 'deps: could not install all of them; some tests will be skipped' >&2
	fi
}

# The terminal's interrupt does not reach commands in the background, so they are ended here.
trap 'trap "" TERM; kill 0; exit 130' INT
# At once: some wait for the network, others for a processor.
for purpose in "$@"; do
	case $purpose in
		test) modules & ;;
		nightly)
			frameworks &
			servers &
			;;
	esac
done
wait
case " $* " in *' nightly '*) cuda ;; esac # by the Python that modules makes
