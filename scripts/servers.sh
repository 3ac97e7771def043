#!/bin/sh
# Installs object stores to test against: servers.sh DIRECTORY
#
# VersityGW (S3) and fake-gcs-server (Google) are built, in two minutes on two cores; Go checks
# their sums. Azurite (Azure) comes from npm, if that is installed. 260 MB in all. If one cannot be
# installed, its tests are skipped.
set -eu
mkdir -p "$1"
directory=$(cd "$1" && pwd)
status=0

# go_install PROGRAM PACKAGE@VERSION: with batchfs's -trimpath, so that Go's own packages are compiled once for both
go_install() {
	[ -x "$directory/$1" ] || (cd / && GOFLAGS='' GOBIN="$directory" CGO_ENABLED=0 nice go install -trimpath -ldflags='-s -w' "$2") || status=1
}

go_install versitygw github.com/versity/versitygw/cmd/versitygw@v1.8.0
go_install fake-gcs-server github.com/fsouza/fake-gcs-server@v1.56.1
if [ ! -x "$directory/azurite/node_modules/.bin/azurite-blob" ] && command -v npm >/dev/null 2>&1; then
	if ! npm install --silent --no-fund --no-audit --ignore-scripts --prefix "$directory/azurite" azurite@3.35.0; then
		rm -rf "$directory/azurite"
		status=1
	fi
fi
exit $status
