# Two commands are enough: `make demo` shows batchfs at work, `make test` tests it.
# Both install what they need on Debian and Ubuntu; elsewhere they say what is missing.

.PHONY: build deps demo test bench clean

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
	$(or $(CC),cc) -O2 -o bin/ceiling bench/ceiling/ceiling.c -ljpeg -lpthread
	go run ./bench -batchfs bin/batchfs -ceiling bin/ceiling $(BENCH)

clean:
	rm -rf bin
