#!/bin/sh
# Installs the frameworks of examples/ into a virtual environment: frameworks.sh DIRECTORY
#
# PyTorch is the distribution's, because the registry's brings gigabytes of CUDA. Versions of other
# packages that are too new for it are kept out. DIRECTORY/complete exists once nothing is missing.
set -eu
/usr/bin/python3 -m venv --system-site-packages "$1"
"$1/bin/python3" -m pip install -q --retries 1 'numpy<2' 'torch<1.14' 'pytorch-lightning<2.1' 'transformers<4.40' 'accelerate<0.28' \
	jax flax optax keras grain scikit-learn pillow ray
touch "$1/complete"
