//! Tables that grow without moving their entries: no addition takes more than a few microseconds.

use hashbrown::HashTable;

use crate::hash::hash;

const CHUNK: usize = 4096;

/// Values under small ids, which are used again.
pub(crate) struct Slab<T> {
    chunks: Vec<Vec<Option<T>>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(id) = self.free.pop() {
            self.chunks[id as usize / CHUNK][id as usize % CHUNK] = Some(value);
            return id;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            let room = if self.chunks.is_empty() { 0 } else { CHUNK };
            self.chunks.push(Vec::with_capacity(room));
        }
        let full = (self.chunks.len() - 1) * CHUNK;
        let last = self.chunks.last_mut().expect("pushed above");
        last.push(Some(value));
        u32::try_from(full + last.len() - 1).expect("fewer than 2^32 values fit in memory")
    }

    pub(crate) fn get(&self, id: u32) -> &T {
        self.chunks[id as usize / CHUNK][id as usize % CHUNK].as_ref().expect("an id in use")
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> &mut T {
        self.chunks[id as usize / CHUNK][id as usize % CHUNK].as_mut().expect("an id in use")
    }

    pub(crate) fn remove(&mut self, id: u32) -> T {
        self.free.push(id);
        self.chunks[id as usize / CHUNK][id as usize % CHUNK].take().expect("an id in use")
    }

    /// The greatest id ever given, plus one.
    pub(crate) fn ids(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten().flatten()
    }
}

/// Number of shards. Growing one of them, with a million entries in all, takes a tenth of a millisecond. Not a power of
/// two: tables grow by doubling, and so a round number of entries finds none of them just grown.
const SHARDS: usize = 1280;

/// A hash table in shards, each of which grows on its own.
pub(crate) struct Sharded<T> {
    shards: Vec<HashTable<T>>,
    len: usize,
}

impl<T> Default for Sharded<T> {
    fn default() -> Self {
        Self { shards: std::iter::repeat_with(HashTable::new).take(SHARDS).collect(), len: 0 }
    }
}

impl<T> Sharded<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn find(&self, hash: u64, same: impl FnMut(&T) -> bool) -> Option<&T> {
        self.shards[shard(hash)].find(hash, same)
    }

    pub(crate) fn find_mut(&mut self, hash: u64, same: impl FnMut(&T) -> bool) -> Option<&mut T> {
        self.shards[shard(hash)].find_mut(hash, same)
    }

    pub(crate) fn insert(&mut self, hash: u64, value: T, hasher: impl Fn(&T) -> u64) {
        self.shards[shard(hash)].insert_unique(hash, value, hasher);
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, hash: u64, same: impl FnMut(&T) -> bool) -> Option<T> {
        let entry = self.shards[shard(hash)].find_entry(hash, same).ok()?;
        self.len -= 1;
        Some(entry.remove().0)
    }
}

/// Uses other bits than the tables themselves, which use the lowest and the highest.
fn shard(hash: u64) -> usize {
    (hash >> 40) as usize % SHARDS
}

/// The class that holds an id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) id: u64,
    pub(crate) class: u32,
    /// Position in the list of a shared class.
    pub(crate) at: u32,
}

/// The ids of an index.
#[derive(Default)]
pub(crate) struct Ids(Sharded<Place>);

impl Ids {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn find(&self, id: u64) -> Option<&Place> {
        self.0.find(hash(id), |place| place.id == id)
    }

    pub(crate) fn find_mut(&mut self, id: u64) -> Option<&mut Place> {
        self.0.find_mut(hash(id), |place| place.id == id)
    }

    pub(crate) fn insert(&mut self, place: Place) {
        self.0.insert(hash(place.id), place, |place| hash(place.id));
    }

    pub(crate) fn remove(&mut self, id: u64) -> Option<Place> {
        self.0.remove(hash(id), |place| place.id == id)
    }
}
