//! Sorting ids. Otherwise an event with thousands of matches would spend most of its time on this.

/// Below this many ids the general sort is faster.
const FEW: usize = 256;

/// Ids of a bucket, if they are evenly distributed.
const BUCKET: usize = 4;

/// Sorts ids. They are first distributed to buckets by their leading bits, which nearly sorts evenly distributed ids,
/// both counted and random ones. Within buckets the general sort does the rest.
pub(crate) fn sort_ids(ids: &mut [u64]) {
    if ids.len() < FEW {
        return ids.sort_unstable();
    }
    let (least, greatest) = ids.iter().fold((u64::MAX, 0), |(least, greatest), &id| (least.min(id), greatest.max(id)));
    let bits = (ids.len() / BUCKET).ilog2();
    let shift = (u64::BITS - (greatest - least).leading_zeros()).saturating_sub(bits);
    let bucket = |id: u64| ((id - least) >> shift) as usize;
    let mut ends = vec![0_u32; bucket(greatest) + 1];
    for &id in &*ids {
        ends[bucket(id)] += 1;
    }
    let mut end = 0;
    for count in &mut ends {
        end += std::mem::replace(count, end);
    }
    let unsorted = ids.to_vec();
    for id in unsorted {
        let place = &mut ends[bucket(id)];
        ids[*place as usize] = id;
        *place += 1;
    }
    let mut start = 0;
    for end in ends {
        let end = end as usize;
        if end - start > 1 {
            ids[start..end].sort_unstable();
        }
        start = end;
    }
}

#[cfg(test)]
mod tests {
    use super::sort_ids;

    #[test]
    fn ids_of_any_distribution() {
        let mut state = 1_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state >> 1
        };
        for count in [0, 1, 255, 256, 257, 1000, 5000] {
            let drawn: Vec<u64> = (0..count).map(|_| next()).collect();
            let crowded: Vec<u64> = drawn.iter().map(|id| if id % 50 == 0 { *id } else { id % 3 }).collect();
            let counted: Vec<u64> = drawn.iter().map(|id| id % (count + 1)).collect();
            let equal = vec![7; count as usize];
            for mut ids in [drawn, crowded, counted, equal] {
                let mut expected = ids.clone();
                expected.sort_unstable();
                sort_ids(&mut ids);
                assert_eq!(ids, expected);
            }
        }
    }
}
