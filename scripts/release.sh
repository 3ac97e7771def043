#!/bin/sh
# Builds what a release consists of: release.sh DIRECTORY. That is a wheel for Python, an archive
# with the same program, its man pages, completions and systemd unit, and the checksums of both.
#
# The commit must be a tag v1.2.3 that CHANGELOG.md has a section for, and nothing may be changed.
set -eu
cd "$(dirname "$0")/.."
directory=$1

refuse() {
	printf 'release: error: %s\nrelease: hint: %s\n' "$1" "$2" >&2
	exit 1
}

[ -z "$(git status --porcelain)" ] || refuse 'some files are changed' 'git stash, or commit them'
tag=$(git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null) ||
	refuse 'this commit has no version' 'git tag -a v0.1.0 -m "batchfs 0.1.0", after its section in CHANGELOG.md'
version=${tag#v}
grep -q "^## \[$version\] - " CHANGELOG.md || refuse "CHANGELOG.md has no section [$version]" "rename [Unreleased] to [$version] - $(date +%F)"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
rm -rf "$directory"
mkdir -p "$directory"
scripts/wheel.sh "$directory"
wheel=$(ls "$directory"/*.whl)

name=batchfs-$version-linux-$(uname -m)
root=$work/$name
mkdir -p "$root/man" "$root/completion"
python3 -m zipfile -e "$wheel" "$work/wheel"
mv "$work/wheel/batchfs-$version.data/scripts/batchfs" "$root/"
chmod 755 "$root/batchfs"
cp packaging/man/*.1 "$root/man/"
cp LICENSE README.md CHANGELOG.md packaging/batchfs@.service "$root/"
for shell in bash zsh fish; do
	"$root/batchfs" completion $shell >"$root/completion/batchfs.$shell"
done
# Names, owners and times in the archive do not depend on who packs it.
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" -C "$work" -c "$name" | gzip -9n >"$directory/$name.tar.gz"
(cd "$directory" && sha256sum -- *.whl *.tar.gz >SHA256SUMS)
ls -l "$directory"
