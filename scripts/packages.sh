# Debian's packages for what can do without them, for other scripts to read in.
# shellcheck shell=sh

# want PACKAGE...: installs them where apt-get is there. What it prints is shown only
# when it fails; so that failing is no error, and what needs them says so itself.
want() {
	command -v apt-get >/dev/null 2>&1 || return 0
	as_root=
	[ "$(id -u)" = 0 ] || as_root=sudo
	echo "installing: $*"
	log=$(mktemp)
	# Without fresh lists the packages may still be found.
	$as_root apt-get update -qq >/dev/null 2>&1 || true
	if ! DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y --no-install-recommends "$@" >"$log" 2>&1; then
		cat "$log" >&2
		echo "could not install: $*" >&2
	fi
	rm -f "$log"
}
