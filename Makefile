# `make demo` shows batchfs at work, `make test` tests it. On Debian and Ubuntu both install
# what they need; elsewhere they say what is missing.

.PHONY: build deps demo check test nightly mutants wheel release bench bench-peers bench-liquid bench-remote gpucheck clean

build: bin/batchfs

# Always run: the compiler knows what has to be rebuilt.
.PHONY: bin/batchfs
bin/batchfs:
	@scripts/deps.sh build
	@scripts/build.sh $@

deps:
	@scripts/deps.sh build test nightly

# DATASET=dir shows your own images. In a pipe it uses no colors.
demo:
	@scripts/deps.sh build mount
	@scripts/build.sh bin/batchfs
	@scripts/demo.sh bin/batchfs

# While you work: gofmt, vet, and the tests that mount nothing.
check:
	@scripts/deps.sh build
	@scripts/test.sh check

# Every test once.
test:
	@scripts/deps.sh build
	@scripts/test.sh test

# Everything: race detector, sanitizers, fuzzing. Installs 1.6 GB; FUZZTIME=5m fuzzes each target for longer.
nightly:
	@scripts/deps.sh build
	@scripts/test.sh nightly

# Finds out which small changes of a package its own tests notice, in bin/mutants.txt: PACKAGE=./shard MUTANTS='-n 200 -all'.
mutants:
	@scripts/deps.sh build
	@mkdir -p bin
	@. scripts/libraries.sh && use_cuda && export GOFLAGS="-trimpath -tags=$$(echo netgo $$(static_tags) | tr ' ' ,)" && \
		go run ./internal/mutate -o bin/mutants.txt $(MUTANTS) $(PACKAGE)

# A wheel for Python with batchfs in it, into bin/wheels.
wheel:
	@scripts/deps.sh build
	@scripts/wheel.sh bin/wheels

# A wheel, an archive and their checksums, of a commit with a tag v1.2.3, into bin/release.
release:
	@scripts/deps.sh build
	@scripts/release.sh bin/release

# Needs root for passthrough. BENCH adds flags of bench, see cmd/bench/main.go.
bench:
	@scripts/deps.sh build mount
	@scripts/build.sh bin/batchfs
	@scripts/ceiling.sh bin/ceiling
	@scripts/photos.sh bin/photos
	go run ./cmd/bench -batchfs bin/batchfs -ceiling bin/ceiling $(BENCH)

# Compares with the alternatives. PEERS_PYTHON=python3 uses the PyTorch and DALI already
# installed; otherwise they are installed, DALI (1 GB) into bin/peers.
bench-peers:
	@scripts/deps.sh build mount
	@scripts/build.sh bin/batchfs
	@scripts/ceiling.sh bin/ceiling
	@$(if $(PEERS_PYTHON),true,scripts/peers.sh bin/peers dali)
	go run ./cmd/bench -batchfs bin/batchfs -ceiling bin/ceiling -only peers -python $(or $(PEERS_PYTHON),bin/peers/bin/python3) $(BENCH)

# Measures mixes of encoded, packed and raw images on storage of several speeds, against Liquid, CoorDL and DALI, which is
# installed unless PEERS_PYTHON has it; the cache; and how many accelerators are kept busy, which are emulated. Makes datasets
# of 4 GB in bin, which must not be on a tmpfs, and pictures in bin/liquid. BENCH='-only liquid/disk' measures a part.
bench-liquid:
	@scripts/deps.sh build mount
	@scripts/build.sh bin/batchfs
	@scripts/ceiling.sh bin/ceiling
	@TAGS=libraries scripts/build.sh bin/batchfs-libraries
	@scripts/photos.sh bin/photos
	@$(if $(PEERS_PYTHON),true,scripts/peers.sh bin/peers dali)
	go run ./cmd/bench -batchfs bin/batchfs -ceiling bin/ceiling -only liquid -images 4096 -cityscapes 64 -rounds 3 -work bin \
		-python $(or $(PEERS_PYTHON),bin/peers/bin/python3) $(BENCH)

# Measures datasets in an object store, with added delays, also against other loaders, which are installed into bin/peers
# (100 MB) unless PEERS_PYTHON has them. Its files are in bin, which must not be on a tmpfs.
bench-remote:
	@scripts/deps.sh build mount
	@scripts/build.sh bin/batchfs
	@scripts/build.sh bin/bench ./cmd/bench
	@scripts/ceiling.sh bin/ceiling
	@$(if $(PEERS_PYTHON),true,scripts/peers.sh bin/peers stores)
	bin/bench -only remote -work bin -python $(or $(PEERS_PYTHON),bin/peers/bin/python3) $(BENCH)

# Makes bin/gpucheck.d, which checks a GPU and measures on it, here or on a machine that has nothing else: docs/gpucheck.md. Where
# there is no GPU, all its rows run with a driver in host memory. PEERS_PYTHON is the Python that has PyTorch, CuPy or JAX.
gpucheck:
	@scripts/deps.sh build mount
	@scripts/gpucheck.sh bin/gpucheck.d
	@if [ -e /dev/nvidiactl ]; then PYTHON=$(or $(PEERS_PYTHON),python3) bin/gpucheck.d/run; else \
		echo 'no GPU here: with a driver in host memory' && go test -v -count 1 ./integration -run 'TestGPUCheck$$'; fi

clean:
	rm -rf bin
