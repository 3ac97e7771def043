#!/bin/sh
# Installs the frameworks of examples/ into a virtual environment: frameworks.sh DIRECTORY
#
# PyTorch is the distribution's, as that of the registry brings gigabytes of CUDA. Everything that is
# newer than it is kept out. DIRECTORY/complete is there once nothing is missing.
set -eu
/usr/bin/python3 -m venv --system-site-packages "$1"
"$1/bin/python3" -m pip install -q --retries 1 'numpy<2' 'torch<1.14' 'pytorch-lightning<2.1' 'transformers<4.40' 'accelerate<0.28' \
	jax flax optax keras grain scikit-learn pillow ray
touch "$1/complete"
