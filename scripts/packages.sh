# Installs optional Debian packages. Sourced by other scripts.
# shellcheck shell=sh

# want PACKAGE...: installs packages if there is an apt-get. Shows its output only if it
# fails. Failure is not an error: whatever needs the packages reports that itself.
want() {
	command -v apt-get >/dev/null 2>&1 || return 0
	as_root=
	[ "$(id -u)" = 0 ] || as_root=sudo
	echo "installing: $*"
	log=$(mktemp)
	# Packages may be found even with old lists.
	$as_root apt-get update -qq >/dev/null 2>&1 || true
	if ! DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y --no-install-recommends "$@" >"$log" 2>&1; then
		cat "$log" >&2
		echo "could not install: $*" >&2
	fi
	rm -f "$log"
}
