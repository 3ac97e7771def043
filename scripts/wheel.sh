#!/bin/sh
# Builds a wheel for Python with batchfs in it: wheel.sh DIRECTORY. Without one, it installs what that needs.
#
# The binary is linked against glibc 2.17 by zig, which brings the symbols of old versions, so that
# it runs on every Linux distribution since 2014. It is not fully static, as it opens the libraries of
# GPUs at run time. gcc still compiles: zig's compiler would make another decoder.
set -eu
cd "$(dirname "$0")/.."
. scripts/libraries.sh

tools=$PWD/bin/wheel
if ! "$tools/bin/python3" -c 'import ziglang, wheel' >/dev/null 2>&1; then
	python3 -m venv "$tools" && "$tools/bin/python3" -m pip install -q --retries 1 ziglang wheel || {
		rm -rf "$tools"
		echo 'wheel: error: could not install ziglang and wheel for Python' >&2
		exit 1
	}
fi

[ $# -gt 0 ] || exit 0
directory=$1

[ -n "$(static_tags)" ] || {
	echo 'wheel: error: the static archives of libjpeg, libpng, libwebp, libdeflate and zlib are needed' >&2
	exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

# Go and NVML's binding pass options that zig does not know and batchfs does not need.
cat >"$work/linker" <<EOF
#!/bin/sh
for option do
	shift
	case \$option in -rdynamic | -Wl,--export-dynamic | -Wl,--no-export-dynamic | -Wl,--unresolved-symbols=*) ;; *) set -- "\$@" "\$option" ;; esac
done
exec "$tools/bin/python3" -m ziglang cc -target $(uname -m)-linux-gnu.2.17 -L"$(dirname "$("$CC" -print-file-name=libjpeg.a)")" "\$@"
EOF
chmod +x "$work/linker"

# Go resolves the names of hosts itself (netgo), as zig has no libresolv.
TAGS=netgo LINKER="$work/linker" scripts/build.sh "$work/batchfs"
# A tag v1.2.3 is version 1.2.3; the fifth commit after it 1.2.3.post5.
version=$(git describe --tags --match 'v[0-9]*' 2>/dev/null | sed -E 's/^v//; s/-([0-9]+)-g[0-9a-f]+$/.post\1/' || true)
version=${version:-0.dev$(git rev-list --count HEAD 2>/dev/null || echo 0)}

root=$work/batchfs-$version
mkdir -p "$root/batchfs" "$root/batchfs-$version.data/scripts" "$root/batchfs-$version.dist-info"
cp python/batchfs/__init__.py python/batchfs/py.typed "$root/batchfs/"
mv "$work/batchfs" "$root/batchfs-$version.data/scripts/batchfs"
strip "$root/batchfs-$version.data/scripts/batchfs"
cat >"$root/batchfs-$version.dist-info/METADATA" <<EOF
Metadata-Version: 2.1
Name: batchfs
Version: $version
Summary: Training batches of images as files
License: Apache-2.0
Requires-Python: >=3.8
Requires-Dist: numpy
EOF
cat >"$root/batchfs-$version.dist-info/WHEEL" <<EOF
Wheel-Version: 1.0
Generator: batchfs
Root-Is-Purelib: false
Tag: py3-none-manylinux_2_17_$(uname -m)
EOF
mkdir -p "$directory"
"$tools/bin/python3" -m wheel pack -d "$directory" "$root" >/dev/null
ls "$directory"/batchfs-"$version"-*.whl
