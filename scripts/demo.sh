#!/bin/sh
# Shows batchfs at work: demo.sh BATCHFS
#
# Generates a small set of photos (or uses DATASET=dir), mounts it, shows the tree, reads
# an epoch from another process, saves a contact sheet, and unmounts.
set -eu

batchfs=$1
: "${IMAGES:=1024}"
work=$PWD/demo
mnt=$work/mnt
sheet=$work/contact-sheet.png
dataset=${DATASET:-$work/photos}

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n%s\n' "$*"; }
run() { say "\$ $*"; "$@"; }
# tell TEXT: what the next commands are for.
tell() { printf '\n%s\n' "$*"; }

mounted=
finish() {
	status=$?
	trap - EXIT INT TERM
	if [ -n "$mounted" ]; then
		"$batchfs" umount "$mnt" || "$batchfs" umount --lazy "$mnt" || true
	fi
	rmdir "$mnt" 2>/dev/null || true
	exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

mkdir -p "$work"
[ ! -d "$mnt" ] || "$batchfs" umount "$mnt" 2>/dev/null || true # left by a killed demo
mkdir -p "$mnt"

if [ -z "${DATASET:-}" ] && [ ! -f "$work/photos.$IMAGES" ]; then
	tell "Some photos to begin with, in 8 class folders: $IMAGES JPEGs of 500x375, which takes a few seconds."
	rm -rf "$dataset" "$work"/photos.*
	run "$batchfs" gen --out "$dataset" --images "$IMAGES" --classes 8
	: >"$work/photos.$IMAGES"
fi

tell 'The index says how large each image is, so that all batches have their sizes at once. A mount makes it, too.'
run "$batchfs" index "$dataset"
tell 'A mount in the background: batches of 32, for two ranks, in a new random order each epoch.'
run "$batchfs" mount --daemon --batch-size 32 --shards 2 --shuffle --seed 7 --log-level warn "$dataset" "$mnt"
mounted=yes

tell 'Every batch of every epoch is there as a file. None is decoded before it is opened.'
run ls "$mnt"
say "\$ ls -l $mnt/shard-1/epoch-0 | head"
# shellcheck disable=SC2012 # for display only
ls -l "$mnt/shard-1/epoch-0" | head -n 12
say "\$ head -c 400 $mnt/shard-1/epoch-0/batch-00000.json"
head -c 400 "$mnt/shard-1/epoch-0/batch-00000.json"
echo ' ...'

tell 'An epoch, decoded now. The bytes are the same whenever and wherever it is read.'
say "\$ cat $mnt/shard-*/epoch-0/batch-*.nhwc | sha256sum"
cat "$mnt"/shard-*/epoch-0/batch-*.nhwc | sha256sum

cp "$mnt/shard-0/epoch-0/batch-00000.png" "$sheet"
chmod u+w "$sheet"
tell 'What that took:'
run "$batchfs" stats "$mnt" </dev/null | cat
run "$batchfs" umount "$mnt"
mounted=
printf '\nThe first batch as a picture: %s\n' "$sheet"
