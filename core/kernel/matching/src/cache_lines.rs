//! Large arrays of cache lines, mapped directly from the operating system.
//!
//! The general allocator does not return freed memory to the system, and merging frees a lot: an index of a million
//! filters would use half as much again. Mappings of their own may also use huge pages, which saves most address
//! translation when scanning distant rows.

use memmap2::MmapMut;

/// Words of a cache line.
pub(crate) const WORDS: usize = 8;

/// A cache line.
pub(crate) type Line = [u64; WORDS];

/// Below this many lines the general allocator is used.
const SMALL: usize = 4096;

/// A zeroed array of cache lines.
#[derive(Debug)]
pub(crate) enum Lines {
    Small(Vec<Line>),
    Mapped(MmapMut),
}

impl Lines {
    /// Allocates lines of zeroes. Lines that are never written take no memory.
    pub(crate) fn zeroed(count: usize) -> Self {
        let mapped = (count >= SMALL).then(|| MmapMut::map_anon(count * size_of::<Line>())).and_then(Result::ok);
        match mapped {
            Some(map) => {
                #[cfg(target_os = "linux")]
                if count >= HUGE {
                    // Only advice: without it, pages are small.
                    let _ = map.advise(memmap2::Advice::HugePage);
                }
                Self::Mapped(map)
            }
            None => Self::Small(vec![[0; WORDS]; count]),
        }
    }

    /// Grows to this many lines.
    pub(crate) fn grow(&mut self, count: usize) {
        let old = self.as_ref().len();
        if old < count {
            let mut grown = Self::zeroed(count.max(old + old / 2));
            grown.as_mut()[..old].copy_from_slice(self.as_ref());
            *self = grown;
        }
    }

    #[inline]
    pub(crate) fn as_ref(&self) -> &[Line] {
        match self {
            Self::Small(lines) => lines,
            Self::Mapped(map) => bytemuck::cast_slice(map),
        }
    }

    #[inline]
    pub(crate) fn as_mut(&mut self) -> &mut [Line] {
        match self {
            Self::Small(lines) => lines,
            Self::Mapped(map) => bytemuck::cast_slice_mut(map),
        }
    }
}

/// From this many lines on, huge pages are requested: two of them are filled.
#[cfg(target_os = "linux")]
const HUGE: usize = 2 * 2 * 1024 * 1024 / size_of::<Line>();
