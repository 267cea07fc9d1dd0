//! Large arrays of cache lines, straight from the operating system.
//!
//! The general allocator keeps what is given back to it, and merging gives back a lot: an index of a million filters
//! would hold half as much again. Pages of their own also may be huge ones, which spares most of the address
//! translation that walking rows far apart costs.

use memmap2::MmapMut;

/// Words of a cache line.
pub(crate) const WORDS: usize = 8;

/// A cache line.
pub(crate) type Line = [u64; WORDS];

/// Below this many lines the general allocator serves.
const SMALL: usize = 4096;

/// A zeroed array of cache lines.
#[derive(Debug)]
pub(crate) enum Lines {
    Small(Vec<Line>),
    Mapped(MmapMut),
}

impl Lines {
    /// So many lines of zeroes; those never written take no memory.
    pub(crate) fn zeroed(count: usize) -> Self {
        let mapped = (count >= SMALL).then(|| MmapMut::map_anon(count * size_of::<Line>())).and_then(Result::ok);
        match mapped {
            Some(map) => {
                #[cfg(target_os = "linux")]
                if count >= HUGE {
                    // Advice: where it is not taken, pages are small.
                    let _ = map.advise(memmap2::Advice::HugePage);
                }
                Self::Mapped(map)
            }
            None => Self::Small(vec![[0; WORDS]; count]),
        }
    }

    /// Makes room for so many lines.
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

/// From this many lines on, huge pages are asked for: two of them are filled.
#[cfg(target_os = "linux")]
const HUGE: usize = 2 * 2 * 1024 * 1024 / size_of::<Line>();
