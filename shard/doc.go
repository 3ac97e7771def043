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
// They follow DALI's unpadded reader, which reads on at the end of a range, and its iterator, which
// decides how much of that an epoch delivers. The reader of shard s is one endless stream: its p-th
// sample is at position (floor(n·s/k) + p) mod n, or lo + p mod (hi-lo) with StickToShard. Each
// time the stream enters a range, that range's epoch begins: the j-th range it reads (from 0) is
// read in the order of epoch j, and Slot.Epoch is this j. So over all shards, slots with the same
// Slot.Epoch never name a sample twice, and if nothing is dropped they name every sample.
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
// Derivation: after m epochs without a skip, shard x must have read floor(n·(x+m)/k) - floor(n·x/k)
// samples, at most ceil(n·m/k), or Z·m with StickToShard. An epoch ends with the first full batch
// by which every shard has read its share. It is skipped only if that batch covers the next range
// as well, which needs b >= Z; then every epoch is one batch.
//
// # Elastic plans
//
// They are for jobs that are restarted with another number of shards but the same B = k·b. Step t
// of an epoch is positions [t·B, min((t+1)·B, n)), for every k: batch t of all shards together. In
// a step of m positions, shard s has those from floor(m·s/k) to floor(m·(s+1)/k), which are b
// positions in a full step. Each epoch has ceil(n/B) steps, or floor(n/B) with Drop. Slots that are
// not valid repeat the position before the next shard's part.
//
// # Local placement
//
// There are N nodes, where N divides k. Node v has the k/N shards from v·k/N on. It owns the
// samples [o(v), o(v+1)), where o(v) is the border of blocks nearest to floor(n·v/N), the earlier
// one if two are equally near, or floor(n·v/N) if there are no Blocks. In a step of m positions,
// node v gets floor(m·(v+1)/N) - floor(m·v/N). Positions are taken in order, and each goes to the
// owner of its sample if that node has room left. The rest go, in order, to the nodes with room
// left, in the order of the nodes. If a node has M positions and does not own F of them, then place
// i in its list has the next of those F iff floor((i+1)·F/M) > floor(i·F/M), and otherwise the next
// that it owns. Its shards divide the list as shards divide a step's positions without placement.
//
// Samples of each cost are dealt out separately. Without placement, node v would get the positions
// of the step from the floor(m·v/N)-th to before the floor(m·(v+1)/N)-th. It has room for as many
// samples of each cost as these positions have, and its list has a cost in the same places as they
// do: place i takes the next entry from the list of that cost, which is made as above. So each
// batch has the same mix as without placement, and a node takes its own samples of each cost first.
// The mix comes before ownership: a node that owns few raw samples, for example, gets its share of
// them from others.
//
// So each node can compute what all others read. With a shuffle of n samples, n much larger than B,
// an average fraction sqrt((1-1/N)/(2·pi·B/N)) of what a node gets belongs to others. With several
// costs that all nodes own equally, multiply this by the sum of the square roots of the costs'
// shares, which is at most 1.42 for two costs and 1.74 for three.
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
// a permutation is keyed by the seed, the epoch and a tag that says what is permuted: 0 for all
// samples, 1 for raw samples, 2 for encoded samples, 2^58 for packed samples, 3 for blocks, 4+g for
// the content of window g; if the dataset has several costs, a window adds 2^56 for its raw
// samples, 2^57 for its encoded samples and 2^58 for its packed samples:
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
// A shuffled plan of a dataset with samples of two or three costs (raw, packed, encoded) gives
// every batch the same mix. Raw samples take their positions first, packed ones take theirs from
// the positions that are left, and encoded ones get the rest. Number the l positions that are left
// from 0. Then c samples take number p iff floor((p+1)·c/l) > floor(p·c/l). It is the q-th of their
// positions, with q = floor(p·c/l). A number p that they do not take becomes number p-q of what is
// left next. With P the permutation of c samples with the tag of the cost, the q-th position of a
// cost holds the P(q)-th of its samples, in the order of their ids.
//
// So the number of samples of a cost in any run of positions, even one that wraps around the end of
// the dataset, is within one of the run's share if there are two costs, and within two if there are
// three.
//
// # Windows
//
// A shuffle with a Window of W mixes W blocks at a time, so that few are read at once. There are M
// blocks of consecutive samples, given by Blocks, or each of BlockSamples with a smaller last one.
// The i-th block of epoch e is Q(i), with Q the permutation of M blocks with tag 3. Let the
// sequence S be the samples of the blocks in this order. There are G = ceil(M/W) windows: window g
// is the blocks from the floor(M·g/G)-th to before the floor(M·(g+1)/G)-th. Let [lo, hi) be their
// places in S: position p in [lo, hi) holds S[lo + R(p-lo)], with R the permutation of hi-lo
// samples with tag 4+g.
//
// If the dataset has samples of several costs, each window distributes them like a dataset of its
// own, with the samples S[lo] to S[hi-1] in the order of S, with p-lo for p, and with the
// permutations of tags 4+g+2^56, 4+g+2^57 and 4+g+2^58. A window's share of a cost may differ from
// the dataset's. A window holds whole numbers of each cost, so no rounding carries over its
// borders. So a run of positions has, to within one or two as above, the sum of its shares in the
// windows that it touches, however many. Only if an unpadded plan reads on into the next range,
// whose windows are those of the next epoch, do both parts of the batch count separately, and the
// bound doubles.
//
// The number of samples before a block depends on the epoch, so all blocks are visited once per
// epoch. The last few epochs are remembered.
//
// # Limits
//
// With maxSamples, MaxBatchSize and MaxEpochs, all offsets fit in 63 bits. Products that may
// not fit are computed in 128 bits.
package shard
