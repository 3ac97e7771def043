#!/bin/sh
# Runs all tests with the race detector; once more on one processor what depends on
# scheduling; and without cgo what has C in it, and one mount. Fuzz targets run their seeds,
# and FUZZTIME=30s fuzzes each of them for that long. The first run includes the stress
# program, for a minute; integration/stress/doc.go says how to run it for longer. Skipped
# tests are listed with the reason. No network is needed.
set -eu
cd "$(dirname "$0")/.."

: "${FUZZTIME:=}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT INT TERM
[ ! -d bin/python ] || PATH="$PWD/bin/python/bin:$PATH"
export PATH

say() { printf '\n== %s\n' "$*"; }

# tests NAME ARGUMENT...: runs go test and shortens its output.
tests() {
	say "$1"
	shift
	status=0
	go test -v -timeout 60m "$@" >"$log" 2>&1 || status=$?
	awk -f scripts/testlog.awk "$log"
	return $status
}

say 'gofmt and vet'
unformatted=$(gofmt -l ./*/ | grep -v '^bin/' || true)
if [ -n "$unformatted" ]; then
	printf 'not formatted by gofmt:\n%s\n' "$unformatted"
	exit 1
fi
go vet ./...
CGO_ENABLED=0 go vet ./...

tests 'all tests, with the race detector' -race ./...
(
	export GOMAXPROCS=1
	tests 'on one processor' ./engine ./fusefs ./cache ./pinned
	tests 'mounts on one processor' -run 'TestMoreReadersThanMemory|TestRoomForOneBatch|TestInterruptedOpen|TestStorageStalls' ./integration
)
(
	export CGO_ENABLED=0
	tests "without cgo, on Go's own decoders" ./decode/... ./layout/...
	tests 'a mount without cgo' -run TestReadForms ./integration
)

[ -n "$FUZZTIME" ] || exit 0

# fuzz PACKAGE TARGET
fuzz() {
	go test -run '^$' -fuzz "^$2\$" -fuzztime "$FUZZTIME" "$1" >"$log" 2>&1
}

say "fuzzing, $FUZZTIME each"
for package in $(go list ./...); do
	for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
		# The fuzzer may fail at its deadline without a finding ("context deadline
		# exceeded"). Real findings are written to a file.
		if ! fuzz "$package" "$target" && { grep -q 'Failing input' "$log" || ! fuzz "$package" "$target"; }; then
			cat "$log"
			exit 1
		fi
		echo "ok   $package $target"
	done
done
