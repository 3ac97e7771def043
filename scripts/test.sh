#!/bin/sh
# Tests batchfs: test.sh check | test | nightly.
#
# check    gofmt, vet, and the packages that mount nothing and take seconds: for use while you work.
# test     every test once, with fewer of the random cases (-short). The packages where goroutines
#          share memory run with the race detector, and so does the daemon that the stress program
#          drives for a third of a minute, while storage fails and memory is short; where calls are made
#          to fail one at a time, the daemon runs without it. Some tests run on one processor.
# nightly  everything: every test with the race detector, the packages that depend on scheduling on
#          one processor, the JPEG decoder with sanitizers, what has C in it without cgo, and each
#          fuzz target for FUZZTIME (30s). integration/stress/doc.go says how to run the stress
#          program for an hour.
#
# Skipped tests are listed with the reason. Every failure of a stage is shown, and the stages after
# it do not run. What tests need is installed while Go compiles, as scripts/deps.sh says, and no
# network is needed if it is there.
set -eu
cd "$(dirname "$0")/.."
. scripts/libraries.sh

what=${1:-test}
case $what in
	check | test | nightly) ;;
	*)
		echo "test.sh: error: unknown kind of test $what" >&2
		exit 2
		;;
esac
: "${FUZZTIME:=30s}"
# Linking takes a third less processor time without debug information (-w), which only the
# sanitizers of nightly show.
short=
[ "$what" = nightly ] || short='-short -ldflags=-w'
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT TERM
# Commands in the background do not get the terminal's interrupt, so they are ended here.
trap 'rm -rf "$logs"; trap "" TERM; kill 0; exit 130' INT

# The flags with which scripts/build.sh builds batchfs. With other flags, the race stage would
# compile every package twice: once for the tests and once for the batchfs that they run. netgo, as
# in the wheel: Go's network is then compiled once for it, for all others, and for what is without
# cgo.
TAGS="netgo $(static_tags)"
use_cuda
# shellcheck disable=SC2086 # a list of words
GOFLAGS="$(go env GOFLAGS) -trimpath -tags=$(echo $TAGS | tr ' ' ,)"
export GOFLAGS TAGS=netgo # to which scripts/build.sh adds the rest

# Debug information, which no test looks at, is left out. Nothing else is compiled with the race
# detector, so nobody's build cache suffers.
race='-race -gcflags=all=-dwarf=false'

failed=

say() { printf '\n== %s\n' "$*"; }

# stage NAME: ends here if something has failed before.
stage() {
	[ -z "$failed" ] || exit 1
	say "$1"
}

# check COMMAND...: remembers a failure.
check() { "$@" || failed=1; }

# Compiling takes an eighth less processor time if Go collects garbage less often; tests run with
# the usual setting.
export GOGC=400

# tests ARGUMENT...: runs go test and shortens its output. RUN_WITH are variables of the tests.
tests() (
	status=0
	log=$(mktemp -p "$logs")
	# shellcheck disable=SC2086 # flags, or none
	go test -v -vet=off $short -timeout 60m -exec "env -u GOGC ${RUN_WITH:-}" "$@" >"$log" 2>&1 || status=$?
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

# This sanitizer takes what libjpeg-turbo and other libraries write for uninitialized, so it can run
# only tests that call none of them.
initialized() (
	export CC="$MSAN_CC"
	"$@"
)

formatted() {
	unformatted=$(find . -path ./bin -prune -o -name '*.go' -exec gofmt -l {} +)
	[ -z "$unformatted" ] || printf 'not formatted by gofmt:\n%s\n' "$unformatted"
	[ -z "$unformatted" ]
}

# In these and in engine, goroutines share memory that the race detector should see. The longest
# first, so that it is not left to run alone at the end.
shared="./integration/stress ./internal/store ./internal/tier ./cache ./fusefs ./internal/pages ./pinned"
# These mount something, or take long.
mounting="./internal/engine ./internal/profile ./integration ./integration/stress ./cmd/batchfs ./internal/gpu"

# but LIST: all packages except those.
but() {
	# shellcheck disable=SC2068 # a list of words
	go list $@ >"$logs/but"
	go list ./... | grep -vxFf "$logs/but"
}

style() {
	say 'gofmt and vet'
	check formatted
	check go vet ./...
}

without_cgo_vet() {
	# shellcheck disable=SC2046 # a list of words
	check without_cgo go vet $(without_cgo go list -e -f '{{if and .GoFiles .IgnoredGoFiles}}{{.ImportPath}}{{end}}' ./...)
}

# Tests of real mounts wait for one another much of the time, so they run in three parts.
first_part='^Test[A-F]'
second_part='^Test[G-Q]'
# shellcheck disable=SC2086 # flags, or none
mounts_first() { check tests ${RACE:-} -run "$first_part" ./integration; }
# shellcheck disable=SC2086
mounts_second() { check tests ${RACE:-} -run "$second_part" ./integration; }
# shellcheck disable=SC2086
mounts_third() { check tests ${RACE:-} -skip "$first_part|$second_part" ./integration; }
mounts() {
	# Otherwise all three would compile the package at once.
	# shellcheck disable=SC2086
	go list -test -export ${RACE:-} ./integration >/dev/null 2>&1 || true # it fails again where it is shown
	together mounts_first mounts_second mounts_third
}

# One call at a time fails: what that shows is no matter of the race detector, with which the
# stress program has storage that fails and too little memory.
faults='^Test(Faults|FaultsAtStart|Allocations)$'

# These compute much, which takes five times as long with the race detector. It watches the same
# goroutines in the other tests of their packages.
long='^Test(Quotas|HitsAreTheSameWherePacked|HitsOfAMix|DecodingOrderOfCosts|FormsMakeTheSameBytes|PairsMakeTheSameBytes|PackedHitsPerBatch|PackedBesideALocalCache|PartsOfJPEGs|DamageInAPart|DeflatedMembersAreKept|DeviceDecodesWholeFiles)$'

# Those of engine mostly take one processor at a time, so they run in two parts.
engine_part='^Test[A-F]'
# shellcheck disable=SC2086 # flags
racing_first() { check tests $race -run "$engine_part" -skip "$long" ./internal/engine; }
# shellcheck disable=SC2086
racing_second() { check tests $race -skip "$engine_part|$long" ./internal/engine; }
# shellcheck disable=SC2086 # flags, and a list of words
racing_others() { check tests $race -skip "$faults|$long" -p 1 $shared; }
failing_calls() { check tests -run "$faults" ./integration/stress; }
long_ones() { check tests -run "$long" -p "$(nproc)" ./internal/engine ./internal/store; }
# shellcheck disable=SC2046,SC2086
others() { check tests -p "$(nproc)" $(but $shared ./internal/engine ./integration); }
# shellcheck disable=SC2046,SC2086
everything() { check tests $race -p "$(nproc)" ./integration/stress $(but ./integration); }

one_processor() {
	say 'on one processor'
	RUN_WITH='GOMAXPROCS=1'
	check tests ./fusefs ./cache ./pinned
	check tests -run 'TestMoreReadersThanMemory|TestRoomForOneBatch|TestInterruptedOpen|TestStorageStalls' ./integration
	[ "$what" = test ] || check tests ./internal/engine
}

wheel_and_examples() {
	say 'the wheel for Python, and the examples'
	check tests -run 'TestWheel|TestExamples|TestRecipes' ./integration
}

sanitizers() {
	say 'JPEGs and packed images, with the sanitizers of addresses and undefined behaviour'
	check sanitized tests -asan -run 'Baseline|Everywhere|Packed|Restored|Pairs' -skip TestBaselineAlone ./decode # what those compare, others do with libjpeg-turbo

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

# needed KIND: waits for what tests need, which is installed while Go compiles.
needed() {
	check wait "$dependencies"
	[ ! -d bin/python ] || PATH="$PWD/bin/python/bin:$PATH"
	export PATH
}

if [ "$what" = check ]; then
	style
	stage 'tests that need no mount'
	# shellcheck disable=SC2046,SC2086 # a list of words
	check tests $(but $mounting)
	[ -z "$failed" ]
	exit
fi

if [ "$what" = test ]; then scripts/deps.sh test & else scripts/deps.sh test nightly & fi
dependencies=$!

# Vet, the linker and what mounts leave processors idle, on which the last stage is compiled.
compile_racing() {
	nice -n 19 env GOFLAGS="$GOFLAGS $race" scripts/build.sh "$logs/race/batchfs"
	# shellcheck disable=SC2086 # lists of words
	nice -n 19 go list -test -export $race ./internal/engine $shared
} >/dev/null 2>&1

if [ "$what" = test ]; then
	compile_racing &
	compiled=$!
	trap '[ -z "$compiled" ] || kill "$compiled" || true; rm -rf "$logs"' EXIT TERM
	style
	check binary plain
	needed
	say 'all tests'
	together mounts others failing_calls long_ones one_processor
	wait "$compiled" || true # it fails again where it is shown
	compiled=
	stage 'what goroutines share, with the race detector'
	# shellcheck disable=SC2086 # flags
	check binary race $race
	together racing_first racing_second racing_others
	[ -z "$failed" ]
	exit
fi

style
without_cgo_vet
say 'all tests, with the race detector'
# shellcheck disable=SC2086 # flags
check binary race $race
needed
RACE=$race
together mounts everything
check binary plain
RACE=
together one_processor wheel_and_examples sanitizers
[ -z "$failed" ] || exit 1

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
