# Finds the image libraries and compilers, and CUDA's part. Sourced by build.sh, deps.sh and test.sh.
# shellcheck shell=sh

: "${CC:=cc}"

# has_compiler: whether there is a C compiler.
has_compiler() { command -v "$CC" >/dev/null 2>&1; }

# The compiler that has the sanitizer for uninitialized memory; gcc lacks it.
MSAN_CC=clang-19
msan_packages='clang-19 libclang-rt-19-dev' # 320 MB

# It also compiles the GPU's kernels, because another compiler would write different PTX.
# shellcheck disable=SC2034 # for ptx.sh
PTX_CC=clang-19

# has_msan: whether that compiler is installed, with the sanitizer's libraries.
has_msan() {
	case $("$MSAN_CC" -print-file-name="libclang_rt.msan-$(uname -m).a" 2>/dev/null) in /*) return 0 ;; *) return 1 ;; esac
}

# has_header FILE: whether a C program can include it.
has_header() { printf '#include <stdio.h>\n#include <%s>\n' "$1" | "$CC" -E -x c - >/dev/null 2>&1; }

# has_archive LIB: whether there is a libLIB.a to link statically.
has_archive() {
	case $("$CC" -print-file-name="lib$1.a") in /*) return 0 ;; *) return 1 ;; esac
}

# static_tags: the build tags that link the image libraries statically; none if an archive is
# missing.
static_tags() {
	has_compiler || return 0
	for library in jpeg png16 webp deflate z; do
		has_archive $library || return 0
	done
	printf static
	# From version 1.3 on, libwebp's encoder needs it.
	if has_archive sharpyuv; then printf ' sharpyuv'; fi
}

# use_cuda: on systems that NVIDIA has drivers for, adds the tag cuda to TAGS, and the flags that
# compile and link it. CUDA itself need not be installed. To be called in the directory of the
# module.
use_cuda() {
	case $(uname -sm) in 'Linux x86_64' | 'Linux aarch64') ;; *) return 0 ;; esac
	TAGS="${TAGS:-} cuda"
	case ${CGO_CPPFLAGS:-} in *internal/dynlib*) return 0 ;; esac
	CGO_CPPFLAGS="$(go env CGO_CPPFLAGS) -I$PWD/internal/dynlib"
	CGO_LDFLAGS="$(go env CGO_LDFLAGS) -L$PWD/internal/dynlib"
	export CGO_CPPFLAGS CGO_LDFLAGS
}

# missing_headers: the libraries whose headers are missing, by their usual names.
missing_headers() {
	for pair in jpeglib.h:libjpeg png.h:libpng webp/decode.h:libwebp libdeflate.h:libdeflate zlib.h:zlib; do
		has_header "${pair%%:*}" || printf '%s ' "${pair##*:}"
	done
}

# install_command LIBRARY...: how to install them with this system's package manager.
install_command() {
	packages=
	for library in "$@"; do
		packages="$packages $(package_of "$library")"
	done
	printf '%s%s\n' "$(installer)" "$packages"
}

installer() {
	for known in 'apt-get:apt-get install' 'dnf:dnf install' 'zypper:zypper install' 'pacman:pacman -S' 'apk:apk add' 'brew:brew install'; do
		if command -v "${known%%:*}" >/dev/null 2>&1; then
			case ${known%%:*} in brew) printf '%s' "${known#*:}" ;; *) printf 'sudo %s' "${known#*:}" ;; esac
			return
		fi
	done
	printf 'install with your package manager:'
}

# package_of LIBRARY: the name of its development package on this system.
package_of() {
	if command -v apt-get >/dev/null 2>&1; then
		case $1 in
			compiler) echo gcc libc6-dev ;; libjpeg) echo libjpeg-dev ;; libpng) echo libpng-dev ;; libwebp) echo libwebp-dev ;; libdeflate) echo libdeflate-dev ;; zlib) echo zlib1g-dev ;;
		esac
	elif command -v dnf >/dev/null 2>&1 || command -v zypper >/dev/null 2>&1; then
		case $1 in
			compiler) echo gcc ;; libjpeg) echo libjpeg-turbo-devel ;; libpng) echo libpng-devel ;; libwebp) echo libwebp-devel ;; libdeflate) echo libdeflate-devel ;; zlib) echo zlib-devel ;;
		esac
	elif command -v apk >/dev/null 2>&1; then
		case $1 in
			compiler) echo gcc musl-dev ;; libjpeg) echo libjpeg-turbo-dev ;; zlib) echo zlib-dev ;; *) echo "$1-dev" ;;
		esac
	else
		case $1 in
			compiler) echo gcc ;; libjpeg) echo libjpeg-turbo ;; *) echo "$1" ;;
		esac
	fi
}
