// Package shard says which samples are in a batch: for any shard, epoch and batch index,
// directly, without replaying anything before it. It is arithmetic: a Plan is immutable, reads
// no files, knows nothing of images, and is safe for concurrent use. A batch costs as much as its
// samples; with Local, as much as those of all shards.
//
// # Terms
//
// There are n samples, k shards and b samples per batch; everything counts from 0. A position
// is a place in an epoch's order. It holds a sample, identified by its id, its index in the
// dataset. The n positions of an epoch are divided into k ranges: range x covers
// [floor(n·x/k), floor(n·(x+1)/k)). In epoch e, shard s reads range (s+e) mod k, or always
// range s with StickToShard.
//
// # Padded plans
//
// Every shard has B = ceil(ceil(n/k)/b) batches in every epoch. With [lo, hi) the range, slot j
// of batch i is position min(lo+i·b+j, hi-1), and is valid if lo+i·b+j < hi. Fill delivers full
// batches, Partial only the valid slots (so the last batch may be short, or empty), Drop the
// first floor(floor(n/k)/b) batches.
//
// # Unpadded plans
//
// They follow DALI's unpadded reader, which never stops at the end of a range but reads on, and
// its iterator, which decides how much of that an epoch delivers. The reader of shard s is one
// endless stream: its p-th sample is at position (floor(n·s/k) + p) mod n, or lo + p mod
// (hi-lo) with StickToShard. Each time the stream enters a range, that range's epoch begins:
// the j-th range it reads (from 0) is read in the order of epoch j, and Slot.Epoch is this j.
// So over all shards, slots with the same Slot.Epoch never name a sample twice, and if nothing
// is dropped they name every sample.
//
// The epochs before e consume the same amount of the stream in every shard:
//
//	Partial  e · B·b            the last batch of an epoch keeps just enough slots for the epoch to have the size of its range
//	Drop     e · D·b            if floor(n/k) mod b = 0, with D = floor(floor(n/k)/b) batches delivered
//	         e · (D+1)·b        otherwise
//	Fill     b · T(e)           with T(e) the number of batches before epoch e
//
// DALI credits what Fill reads ahead to the next epoch, shard by shard, and skips an epoch that
// was read ahead completely. That recurrence has a closed form, so no table of epochs is
// needed. Let Z = ceil(n/k) be the largest range.
//
//	T(e) = e                    if b >= Z
//	T(e) = ceil(Z·e/b)          else, with StickToShard
//	T(e) = ceil(n·e/(k·b))      else
//
// Derivation: after m epochs without a skip, shard x has had to read floor(n·(x+m)/k) -
// floor(n·x/k) samples, at most ceil(n·m/k), or Z·m with StickToShard, and an epoch ends with the
// first full batch by which every shard has read its share. An epoch is skipped only if such a
// batch covers the next range as well, which needs b >= Z; then every epoch is one batch.
//
// # Elastic plans
//
// They are for jobs that are restarted with another number of shards, and the same B = k·b. Step t
// of an epoch is positions [t·B, min((t+1)·B, n)), for every k: batch t of all shards together. Of
// the m positions of a step, shard s has those from floor(m·s/k) to floor(m·(s+1)/k), which are b
// in a full step. Each epoch has ceil(n/B) steps, or floor(n/B) with Drop. Slots that are not valid
// repeat the position before the next shard's part.
//
// # Local placement
//
// There are N nodes, N a divisor of k, and node v has the k/N shards from v·k/N on. It owns the
// samples [o(v), o(v+1)), where o(v) is the border of blocks nearest to floor(n·v/N), the earlier
// of two, or is floor(n·v/N) if there are no Blocks. Of a step of m positions, node v gets
// floor(m·(v+1)/N) - floor(m·v/N): positions are taken in their order, and each goes to the owner
// of its sample if that has room left. The others go, in their order, to the nodes that have room
// left, in the order of the nodes. In the list of a node with M positions, F of which it does not
// own, place i has the next of those F iff floor((i+1)·F/M) > floor(i·F/M), and the next of its own
// otherwise. Its shards divide the list as they do a step's positions without placement.
//
// Samples of each cost are dealt out separately. Without placement, node v would get the
// floor(m·v/N)-th to before the floor(m·(v+1)/N)-th position of the step. It has room for as many
// of each cost as these have, and its list has a cost where these have it: place i is the next of
// the list of that cost, made as above. So each batch has the mix that it has without placement,
// and a node takes of each cost what it owns first. The mix comes before ownership: a node that
// owns few raw samples, for example, gets its share of them from others.
//
// So each node knows by itself what all others read. With a shuffle of n samples, n much more than
// B, a node does not own sqrt((1-1/N)/(2·pi·B/N)) of what it gets, on average; of several costs
// that all nodes own equally many of, that times the sum of the square roots of their shares, which
// is at most 1.42 for two and 1.74 for three.
//
// # The order of an epoch (OrderVersion)
//
// Without Shuffle, position p holds sample p. With Shuffle, position p of epoch e holds sample
// P(p), where P is a permutation of all n samples that depends only on n, the seed and e. All
// arithmetic is on unsigned 64-bit integers and wraps.
//
// Keys. With G = 0x9e3779b97f4a7c15 and
//
//	mix(z): z ^= z>>30; z *= 0xbf58476d1ce4e5b9; z ^= z>>27; z *= 0x94d049bb133111eb; z ^= z>>31
//
// a permutation is keyed by the seed, the epoch and a tag for what is permuted: 0 all samples, 1
// raw samples, 2 encoded samples, 2^58 packed samples, 3 blocks, 4 and more what is in a window;
// plus 2^56, 2^57 or 2^58 the raw, encoded or packed samples in it, if the dataset has several
// costs:
//
//	s = mix(seed + G);  s = mix((s ^ epoch) + G);  s = mix((s ^ tag) + G)
//	add[i] = mix(s + (2i+1)·G)
//	mul[i] = mix(s + (2i+2)·G) | 1          for the rounds i = 0..7
//
// Rounds. Let w be the number of bits of n, but at least 8, so that 2^w > n. A number below 2^w
// has a low half of floor(w/2) bits and a high half of the rest. The cipher E changes the two
// halves in turn, eight times:
//
//	F[i](x) = hi64(t) ^ lo64(t), t the 128-bit product (x ^ add[i]) · mul[i]
//	i even: high ^= F[i](low),  cut to the bits of high
//	i odd:  low  ^= F[i](high), cut to the bits of low
//
// Walk. P(p) is the first of E(p), E(E(p)), ... that is below n. E is a permutation of
// [0, 2^w), so this ends, and P is a permutation of [0, n); the inverse walks with the rounds
// in reverse. It takes 2^w/n applications of E on average, at most 2 for n >= 128. The domain is
// always larger than n because a Feistel cipher yields only even permutations, and never
// smaller than 2^8 because with tiny halves eight rounds would not reach all orders of a few
// samples.
//
// # Samples of several costs
//
// A shuffled plan of a dataset that has samples of two or three costs (raw, packed, encoded) gives
// every batch the same mix. Raw samples take their positions first, then packed ones of those that
// are left, and encoded ones have the rest. Of l positions that are left, numbered from 0, c
// samples take number p iff floor((p+1)·c/l) > floor(p·c/l). That is the q-th of their positions,
// with q = floor(p·c/l); of what is left after that, a position that they do not take has number
// p-q. With P the permutation of c samples with the tag of the cost, the q-th of its positions
// holds the P(q)-th of its samples, in the order of their ids.
//
// So the number of samples of a cost in any run of positions, even one that wraps around the end of
// the dataset, is within one of the run's share if there are two costs, and within two if there are
// three.
//
// # Windows
//
// A shuffle with a Window of W mixes W blocks at a time, so that few are read at once. There are M
// blocks of consecutive samples, as given by Blocks, or of BlockSamples with a smaller last one.
// The i-th block of epoch e is Q(i), with Q the permutation of M blocks with tag 3. Let the
// sequence S be the samples of the blocks in this order. There are G = ceil(M/W) windows: window g
// is the blocks from the floor(M·g/G)-th to before the floor(M·(g+1)/G)-th. Let [lo, hi) be their
// places in S: position p in [lo, hi) holds S[lo + R(p-lo)], with R the permutation of hi-lo
// samples with tag 4+g.
//
// If the dataset has samples of several costs, each window has them as a dataset of its own would,
// with the samples S[lo] to S[hi-1] in the order of S and p-lo for p, and the permutations with
// tags 4+g+2^56, 4+g+2^57 and 4+g+2^58. A window may have another share of a cost than the dataset.
// At its borders nothing is owed, since it holds whole numbers of each. So a run of positions has,
// to within one or two as above, the sum of its shares in the windows that it touches, however
// many. Only if an unpadded plan reads on into the next range, whose windows are those of the next
// epoch, do both parts of the batch count separately: it is within twice as many.
//
// The number of samples before a block depends on the epoch, so all blocks are visited once for
// each epoch; the last few epochs are remembered.
//
// # Limits
//
// With maxSamples, MaxBatchSize and MaxEpochs, all offsets fit in 63 bits. Products that may
// not fit are computed in 128 bits.
package shard
