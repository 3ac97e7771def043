#!/bin/sh
# Runs all tests with the race detector, those of real mounts in two halves beside the others;
# then, at once, those that depend on scheduling on one processor, the wheel and the examples, the
# JPEG decoder with sanitizers, and without cgo what has C in it, and one mount. The first run
# includes the stress program, for a minute; integration/stress/doc.go says how to run it for
# longer. Fuzz targets run their seeds, and FUZZTIME=30s fuzzes each of them for that long. Skipped
# tests are listed with the reason. Every failure of a stage is shown, and the stages after it do
# not run. What tests need is installed while Go compiles, as scripts/deps.sh says, and no network
# is needed if it is there.
set -eu
cd "$(dirname "$0")/.."
. scripts/libraries.sh

: "${FUZZTIME:=}"
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT TERM
# Commands in the background do not get the terminal's interrupt, so they are ended here.
trap 'rm -rf "$logs"; trap "" TERM; kill 0; exit 130' INT

# As scripts/build.sh builds batchfs. With other flags, the race stage would compile every package
# twice: once for the tests and once for the batchfs that they run. netgo, as in the wheel: Go's
# network is then compiled once for it, for all others, and for what is without cgo.
TAGS="netgo $(static_tags)"
use_cuda
# shellcheck disable=SC2086 # a list of words
GOFLAGS="$(go env GOFLAGS) -trimpath -tags=$(echo $TAGS | tr ' ' ,)"
export GOFLAGS TAGS=netgo # to which scripts/build.sh adds the rest

failed=

say() { printf '\n== %s\n' "$*"; }

# stage NAME: ends here if something has failed before.
stage() {
	[ -z "$failed" ] || exit 1
	say "$1"
}

# check COMMAND...: remembers a failure.
check() { "$@" || failed=1; }

# Compiling takes an eighth less processor time if Go collects garbage less often; tests keep what they are used to.
export GOGC=400

# tests ARGUMENT...: runs go test and shortens its output. RUN_WITH are variables of the tests.
tests() (
	status=0
	log=$(mktemp -p "$logs")
	go test -v -vet=off -timeout 60m -exec "env -u GOGC ${RUN_WITH:-}" "$@" >"$log" 2>&1 || status=$?
	awk -f scripts/testlog.awk "$log"
	exit $status
)

# together STAGE...: runs functions at once, since each of them alone leaves processors idle, and
# shows what they print one after another.
together() {
	[ -z "$failed" ] || exit 1
	for each; do
		("$each" && [ -z "$failed" ]) >"$logs/$each" 2>&1 &
		eval "pid_$each=$!"
	done
	for each; do
		eval "wait \$pid_$each" || failed=1
		cat "$logs/$each"
	done
}

# binary NAME FLAG...: builds the batchfs that the tests of the next stages run, which each of them would build otherwise.
binary() {
	BATCHFS_BINARY=$logs/$1/batchfs
	shift
	export BATCHFS_BINARY
	GOFLAGS="$GOFLAGS $*" scripts/build.sh "$BATCHFS_BINARY"
}

without_cgo() (
	export CGO_ENABLED=0
	unset BATCHFS_BINARY
	"$@"
)

sanitized() (
	export CGO_CFLAGS='-O1 -g -fsanitize=undefined -fno-sanitize-recover=undefined' CGO_LDFLAGS=-fsanitize=undefined
	"$@"
)

# This one would take what libjpeg-turbo and others write for uninitialized, so it can run only
# tests that call none of them.
initialized() (
	export CC="$MSAN_CC"
	"$@"
)

formatted() {
	unformatted=$(find . -path ./bin -prune -o -name '*.go' -exec gofmt -l {} +)
	[ -z "$unformatted" ] || printf 'not formatted by gofmt:\n%s\n' "$unformatted"
	[ -z "$unformatted" ]
}

# What only tests need is installed while Go compiles.
scripts/deps.sh test &
dependencies=$!

stage 'gofmt and vet'
check formatted
check go vet ./...
# shellcheck disable=SC2046 # a list of words
check without_cgo go vet $(without_cgo go list -e -f '{{if and .GoFiles .IgnoredGoFiles}}{{.ImportPath}}{{end}}' ./...)

say 'all tests, with the race detector'

# Tests of real mounts wait for one another much of the time.
mounts_first() { check tests -race -run "$first_half" ./integration; }
mounts_second() { check tests -race -skip "$first_half" ./integration; }
first_half='^Test[A-P]'

# The longest first, so that it is not left to run alone at the end.
# shellcheck disable=SC2046 # a list of words
others() { check tests -race -p "$(nproc)" ./integration/stress $(go list ./... | grep -v '/integration$'); }

check binary race -race
check wait "$dependencies"
[ ! -d bin/python ] || PATH="$PWD/bin/python/bin:$PATH"
export PATH
together mounts_first mounts_second others

one_processor() {
	say 'on one processor'
	RUN_WITH='GOMAXPROCS=1'
	check tests ./engine ./fusefs ./cache ./pinned
	check tests -run 'TestMoreReadersThanMemory|TestRoomForOneBatch|TestInterruptedOpen|TestStorageStalls' ./integration
}

wheel_and_examples() {
	say 'the wheel for Python, and the examples'
	check tests -run 'TestWheel|TestExamples|TestRecipes' ./integration
}

sanitizers() {
	say 'JPEGs, with the sanitizers of addresses and undefined behaviour'
	check sanitized tests -asan -run Baseline -skip TestBaselineAlone ./decode # what those compare, others do with libjpeg-turbo

	say 'JPEGs, with the sanitizer of uninitialized memory'
	if has_msan; then
		check initialized tests -msan -run TestBaselineAlone ./decode
	else
		echo "skipped: there is no $MSAN_CC with its libraries, which make deps installs where it can"
	fi

	say "without cgo, on Go's own decoders"
	check without_cgo tests ./decode/... ./layout/...
	check without_cgo tests -run TestReadForms ./integration
}

check binary plain
together one_processor wheel_and_examples sanitizers

[ -z "$failed" ] || exit 1
[ -n "$FUZZTIME" ] || exit 0

# fuzz PACKAGE TARGET
fuzz() {
	go test -run '^$' -fuzz "^$2\$" -fuzztime "$FUZZTIME" "$1" >"$logs/fuzz" 2>&1
}

say "fuzzing, $FUZZTIME each"
for package in $(go list ./...); do
	for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
		# The fuzzer may fail at its deadline without a finding ("context deadline
		# exceeded"). Real findings are written to a file.
		if ! fuzz "$package" "$target" && { grep -q 'Failing input' "$logs/fuzz" || ! fuzz "$package" "$target"; }; then
			cat "$logs/fuzz"
			exit 1
		fi
		echo "ok   $package $target"
	done
done
