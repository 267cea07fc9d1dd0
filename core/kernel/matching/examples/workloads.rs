//! Runs the kernel on the three workloads of the benchmarks, without Python: `workloads W1 100000 [seed [turns]]`.
//!
//! The official figures come from `plait_lab.benchmarks.kernel_bench`; this is for profiling and for experiments.

use std::time::Instant;

use plait_matching::constraint::{Constraint, Value};
use plait_matching::number::Number;
use plait_matching::value_set::{Bound, ValueSet};
use plait_matching::{Form, Index};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.unit() * bound as f64) as u64
    }

    /// Some of the numbers below `of`.
    fn choose(&mut self, of: u64, count: usize) -> Vec<u64> {
        let mut chosen = Vec::new();
        while chosen.len() < count {
            let drawn = self.below(of);
            if !chosen.contains(&drawn) {
                chosen.push(drawn);
            }
        }
        chosen
    }
}

fn between(low: Option<u64>, high: Option<u64>) -> Constraint {
    let bound = |at: u64| Bound { at: Number::Int(at as i64), open: false };
    if low == high {
        let point = Number::Int(low.unwrap_or_default() as i64);
        return Constraint { numbers: Some(ValueSet::of_points(vec![point])), ..Constraint::default() };
    }
    Constraint {
        numbers: Some(ValueSet { low: low.map(bound), high: high.map(bound), ..ValueSet::default() }),
        ..Constraint::default()
    }
}

fn text(text: &str) -> Constraint {
    Constraint { texts: Some(ValueSet::of_points(vec![text.into()])), ..Constraint::default() }
}

type Conjunction = Vec<(Box<str>, Constraint)>;
type Event = Vec<(String, Value<'static>)>;

/// Draws filters and events.
trait Workload {
    fn filter(&self, random: &mut Random) -> Conjunction;
    fn event(&self, random: &mut Random) -> Event;
}

/// 20 attributes; each filter has five ranges of a tenth of a domain.
struct W1;

impl Workload for W1 {
    fn filter(&self, random: &mut Random) -> Conjunction {
        let range = |attr: u64, random: &mut Random| {
            let low = random.below(900_000);
            (format!("a{attr}").into(), between(Some(low), Some(low + 100_000)))
        };
        random.choose(20, 5).into_iter().map(|attr| range(attr, random)).collect()
    }

    fn event(&self, random: &mut Random) -> Event {
        (0..20).map(|attr| (format!("a{attr}"), Value::Number(Number::Int(random.below(1_000_000) as i64)))).collect()
    }
}

/// 100 attributes of 100 values, of which an event has 30; five predicates a filter, a fifth of them equalities.
struct W2;

impl Workload for W2 {
    fn filter(&self, random: &mut Random) -> Conjunction {
        let any = |attr: u64, random: &mut Random| {
            let (a, b) = (random.below(100), random.below(100));
            let constraint = match random.below(15) {
                0..3 => between(Some(a), Some(a)),
                3..7 => between(None, Some(a)),
                7..11 => between(Some(a), None),
                _ => between(Some(a.min(b)), Some(a.max(b))),
            };
            (format!("a{attr}").into(), constraint)
        };
        random.choose(100, 5).into_iter().map(|attr| any(attr, random)).collect()
    }

    fn event(&self, random: &mut Random) -> Event {
        let value = |random: &mut Random| Value::Number(Number::Int(random.below(100) as i64));
        random.choose(100, 30).into_iter().map(|attr| (format!("a{attr}"), value(random))).collect()
    }
}

/// Quotes of 5000 symbols of Zipf popularity; nine filters in ten name one.
struct W3 {
    cumulative: Vec<f64>,
    names: Vec<&'static str>,
    prices: Vec<u64>,
}

impl W3 {
    fn new() -> Self {
        let mut sum = 0.0;
        let cumulative = (1..=5000).map(|rank| {
            sum += 1.0 / f64::from(rank);
            sum
        });
        let mut random = Random(11);
        Self {
            cumulative: cumulative.collect(),
            names: (0..5000).map(|rank| &*format!("S{rank}").leak()).collect(),
            prices: (0..5000).map(|_| 500 + random.below(50_000)).collect(),
        }
    }

    fn symbol(&self, random: &mut Random) -> usize {
        let drawn = random.unit() * self.cumulative[self.cumulative.len() - 1];
        self.cumulative.partition_point(|&sum| sum < drawn).min(4999)
    }
}

const EXCHANGES: [&str; 12] = ["XA", "XB", "XC", "XD", "XE", "XF", "XG", "XH", "XI", "XJ", "XK", "XL"];
const SECTORS: [&str; 11] = ["sa", "sb", "sc", "sd", "se", "sf", "sg", "sh", "si", "sj", "sk"];
const SIDES: [&str; 2] = ["buy", "sell"];

impl Workload for W3 {
    fn filter(&self, random: &mut Random) -> Conjunction {
        let symbol = self.symbol(random);
        let named = random.unit() < 0.9;
        let centre = self.prices[symbol] as f64 * (0.9 + 0.2 * random.unit());
        let half = centre * (0.01 + 0.09 * random.unit()) / 2.0;
        let mut made = vec![("price".into(), between(Some((centre - half) as u64), Some((centre + half) as u64)))];
        if named {
            made.push(("symbol".into(), text(self.names[symbol])));
        } else {
            made.push(("sector".into(), text(SECTORS[symbol % 11])));
        }
        if !named || random.unit() < 0.3 {
            made.push(("exchange".into(), text(EXCHANGES[random.below(12) as usize])));
        }
        if random.unit() < 0.5 {
            made.push(("volume".into(), between(Some(random.below(1_000_000)), None)));
        }
        if random.unit() < 0.3 {
            made.push(("side".into(), text(SIDES[random.below(2) as usize])));
        }
        if random.unit() < 0.3 {
            let (a, b) = (random.below(1000), random.below(1000));
            made.push(("venue".into(), between(Some(a.min(b)), Some(a.max(b) + 1))));
        }
        made
    }

    fn event(&self, random: &mut Random) -> Event {
        let symbol = self.symbol(random);
        let price = (self.prices[symbol] as f64 * (0.9 + 0.2 * random.unit())) as i64;
        let number = |value: i64| Value::Number(Number::Int(value));
        vec![
            ("symbol".into(), Value::Text(self.names[symbol])),
            ("price".into(), number(price)),
            ("volume".into(), number(random.below(1_000_000) as i64)),
            ("exchange".into(), Value::Text(EXCHANGES[random.below(12) as usize])),
            ("side".into(), Value::Text(SIDES[random.below(2) as usize])),
            ("sector".into(), Value::Text(SECTORS[symbol % 11])),
            ("venue".into(), number(random.below(1000) as i64)),
        ]
    }
}

fn resident_mb() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or(0.0) * 4096.0 / 1e6
}

fn percentiles(mut times: Vec<u64>) -> String {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize] as f64 / 1000.0;
    format!("p50 {:.2} p99 {:.2} p99.9 {:.1} max {:.0} us", at(0.5), at(0.99), at(0.999), at(1.0))
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let workload: Box<dyn Workload> = match arguments[1].as_str() {
        "W1" => Box::new(W1),
        "W2" => Box::new(W2),
        _ => Box::new(W3::new()),
    };
    let count: u64 = arguments[2].parse().expect("a number of filters");
    let mut random = Random(arguments.get(3).map_or(1, |seed| seed.parse().expect("a seed")));
    let mut index = Index::new();
    let before = resident_mb();
    let mut added = Vec::new();
    for id in 0..count {
        let form = Form(vec![workload.filter(&mut random)]);
        let start = Instant::now();
        index.add(id * 7, &form).expect("a new id");
        added.push(start.elapsed().as_nanos() as u64);
    }
    println!("{} {count} add: {}", arguments[1], percentiles(added));
    let loaded = resident_mb();
    let start = Instant::now();
    index.settle();
    let took = start.elapsed().as_secs_f64();
    std::thread::sleep(std::time::Duration::from_millis(500)); // merged parts are freed in another thread
    println!("  {loaded:.0} MB loaded, {:.0} MB settled in {took:.2} s (before: {before:.0} MB)", resident_mb());
    let (mut found, mut ids, mut candidates) = (Vec::new(), 0, 0);
    let known = |(name, value): (String, _)| Some((index.attribute(&name)?, value));
    let events: Vec<Vec<(u32, Value<'_>)>> =
        (0..10_000).map(|_| workload.event(&mut random).into_iter().filter_map(known).collect()).collect();
    // The least of several turns excludes the load of other processes, but not the cache misses that the events cause
    // each other.
    let turns: u64 = arguments.get(4).map_or(5, |turns| turns.parse().expect("a number of turns"));
    let mut times = vec![u64::MAX; events.len()];
    for _ in 0..turns {
        for (event, time) in events.iter().zip(&mut times) {
            found.clear();
            let start = Instant::now();
            index.matches(event, &mut found);
            *time = (*time).min(start.elapsed().as_nanos() as u64);
            ids += found.len();
            candidates += index.stats().candidates;
        }
    }
    let turns = events.len() as u64 * turns;
    println!(
        "  match: {}; {:.1} ids, {:.1} candidates",
        percentiles(times),
        ids as f64 / turns as f64,
        candidates as f64 / turns as f64
    );
    let mut times = Vec::new();
    for _ in 0..2000.min(200_000_000 / count) {
        let form = Form(vec![workload.filter(&mut random)]);
        found.clear();
        let start = Instant::now();
        index.covering(&form, &mut found);
        times.push(start.elapsed().as_nanos() as u64);
    }
    println!("  covering: {}", percentiles(times));
    let mut times = Vec::new();
    for id in 0..count / 10 {
        let start = Instant::now();
        index.remove(id * 7).expect("a known id");
        times.push(start.elapsed().as_nanos() as u64);
    }
    println!("  remove: {}", percentiles(times));
}
