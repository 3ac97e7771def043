#!/bin/sh
# Checks a GPU, and measures on it: run [PART...]
#
# Each part ends within ten minutes. 1: checks without a mount. 2: checks with mounts, as root. 3:
# NVIDIA's sanitizer, where it is installed. If no part is named, all of them run, one after the
# other. Parts that need something that is missing are skipped, with a message. Exit status 1: bytes
# differ, a mount did not recover, or a measurement was not finished in time.
#
# PYTHON is the interpreter that may have PyTorch, CuPy or JAX. CASES, IMAGES, PHOTOS, ROUNDS and
# REPEAT change how much is checked and measured. Programs are unpacked into TMPDIR, where they take
# 60 MB, and datasets are made there.
set -u
here=$(cd "$(dirname "$0")" && pwd)
parts=${*:-1 2 3}
TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/gpucheck.XXXXXX") || exit 1
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
trap 'exit 1' INT TERM
failed=0 verdicts=

for program in batchfs gpucheck; do
	gzip -dc "$here/$program.gz" >"$TMPDIR/$program" || exit 1
	chmod +x "$TMPDIR/$program"
done

# What this machine has and, if it cannot mount, why not.
cannot=
if ! timeout 20 "$TMPDIR/batchfs" doctor >"$TMPDIR/doctor" 2>&1; then
	cannot=$(sed -n 's/^!!  mounting *//p' "$TMPDIR/doctor")
	cannot="nothing can be mounted here: ${cannot:-batchfs doctor does not end}"
fi
cat "$TMPDIR/doctor"

# step PART SECONDS NAME COMMAND: runs a command of a part, which may take that long.
step() {
	part=$1 limit=$2 name=$3
	shift 3
	case " $parts " in *" $part "*) ;; *) return ;; esac
	if [ "$part" = 2 ] && [ -n "$cannot" ]; then
		verdicts="$verdicts$(printf '%-12s skipped: %s' "$name" "$cannot")
"
		return
	fi
	printf '\n== %s\n' "$name"
	began=$(date +%s)
	{
		timeout -k 5 "$limit" "$@" 2>&1
		echo $? >"$TMPDIR/status"
	} | tee "$TMPDIR/said"
	case $(cat "$TMPDIR/status") in
	0) verdict=$(grep -io 'skipped: .*' "$TMPDIR/said" | tr '\n' ';') ;;
	124 | 137) verdict="FAILED: not done in $limit s" ;;
	*) verdict=FAILED ;;
	esac
	case $verdict in
	FAILED*) failed=1 ;;
	*) verdict="ok${verdict:+, but $verdict}" ;;
	esac
	verdicts="$verdicts$(printf '%-12s %3d s  %s' "$name" $(($(date +%s) - began)) "$verdict")
"
}

# check PART SECONDS NAME TESTS: some of the tests.
check() {
	step "$1" "$2" "$3" "$TMPDIR/gpucheck" -test.v -test.run "^($4)\$" -batchfs "$TMPDIR/batchfs" \
		-python "${PYTHON:-python3}" -cases "${CASES:-20000}" -images "${IMAGES:-256}" \
		-photos "${PHOTOS:-2048}" -rounds "${ROUNDS:-5}" -repeat "${REPEAT:-50}"
}

check 1 20 device TestGPU
check 1 230 exact TestExact
check 1 60 copies TestSpeedOfCopies
check 1 60 gpu/place TestPlacing
check 1 180 gpu/decode TestDecoding
check 2 80 mounts TestCopies
check 2 120 recovery 'TestKilledReader|TestFullDevice'
check 2 120 frameworks TestFrameworks
check 2 60 gpu/open TestSpeedOfOpens
check 2 180 gpu/epoch TestEpochs
check 3 560 sanitizer TestSanitizer

printf '\n== verdicts\n%s' "$verdicts"
exit $failed
