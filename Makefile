# Two commands are enough: `make demo` shows batchfs at work, `make test` tests it.
# Both install what they need on Debian and Ubuntu; elsewhere they say what is missing.

.PHONY: build deps demo test bench bench-peers bench-liquid clean

build: bin/batchfs

# The compiler knows best what has to be built again.
.PHONY: bin/batchfs
bin/batchfs:
	@scripts/deps.sh build
	@scripts/build.sh $@

deps:
	@scripts/deps.sh build test

# DATASET=dir shows your own images; NO_COLOR and a pipe keep it quiet.
demo:
	@scripts/deps.sh build mount
	@scripts/build.sh bin/batchfs
	@scripts/demo.sh bin/batchfs

# FUZZTIME=30s fuzzes longer.
test:
	@scripts/deps.sh build test
	@scripts/test.sh

# Needs root: passthrough does. BENCH holds more flags of bench, see bench/main.go.
bench:
	@scripts/deps.sh build mount
	@scripts/build.sh bin/batchfs
	@scripts/ceiling.sh bin/ceiling
	go run ./bench -batchfs bin/batchfs -ceiling bin/ceiling $(BENCH)

# The same against what people use instead. PEERS_PYTHON=python3 measures the PyTorch
# and DALI that are there already; else they are installed, DALI of 1 GB into bin/peers.
bench-peers:
	@scripts/deps.sh build mount
	@scripts/build.sh bin/batchfs
	@scripts/ceiling.sh bin/ceiling
	@$(if $(PEERS_PYTHON),true,scripts/peers.sh bin/peers)
	go run ./bench -batchfs bin/batchfs -ceiling bin/ceiling -only peers -python $(or $(PEERS_PYTHON),bin/peers/bin/python3) $(BENCH)

# The cache, and mixes of encoded and raw images, on storage of several speeds. It makes
# datasets of 4 GB in bin, which must not be on a tmpfs, and draws into bin/liquid.
bench-liquid:
	@scripts/deps.sh build mount
	@scripts/build.sh bin/batchfs
	@scripts/ceiling.sh bin/ceiling
	go run ./bench -batchfs bin/batchfs -ceiling bin/ceiling -only hits,uncached,mixes -images 4096 -cityscapes 128 -rounds 3 -work bin $(BENCH)

clean:
	rm -rf bin
