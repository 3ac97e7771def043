#!/bin/sh
# Compiles the GPU's kernels: ptx.sh [OUTPUT]
#
# Any driver since CUDA 9 takes this PTX, for any GPU since Volta. Compiling needs only clang 19
# (make deps), not CUDA. The result is committed, and a test compares it.
set -eu
cd "$(dirname "$0")/.."
. scripts/libraries.sh

# shellcheck disable=SC2154 # from libraries.sh
"$PTX_CC" -x cuda --cuda-device-only --cuda-gpu-arch=sm_70 -Xclang -target-feature -Xclang +ptx60 \
	-nocudainc -nocudalib -ffreestanding -fno-exceptions -O2 -Wall -Wextra -Werror -S internal/gpu/kernels/kernels.cu -o "${1:-internal/gpu/kernels/kernels.ptx}"
