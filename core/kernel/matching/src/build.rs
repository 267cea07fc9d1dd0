//! Builds a segment: choose cuts, then the access path of each conjunction, then an order that groups conjunctions
//! which the same events exclude.

use std::sync::Arc;

use hashbrown::{HashMap, HashTable};

use crate::attribute_test::{Kind, NO_HIGH, NO_LOW, Rich, Test};
use crate::class::{Class, Conjunction};
use crate::class_changes::Changes;
use crate::conjunction_order::in_order;
use crate::hash::hash;
use crate::inner_hulls::{COLUMNS, Inner, Row};
use crate::matrix::{BLOCK, Matrix};
use crate::merge_worker::Members;
use crate::runs::Runs;
use crate::segment::{Access, BY_ANY, BY_NUMBER, BY_TEXT, Cluster, Finer, Segment};
use crate::slots::{CUTS_FINER, CUTS_MAX, Cuts, Hull, Slotter};

/// Bounds that are sampled to cut one attribute.
const SAMPLE: u32 = 4096;

/// Below this many conjunctions one matrix is fastest.
const SMALL: usize = 1024;

/// An equality leads to a cluster if at most one conjunction in this many requires its values.
const SELECTIVE: usize = 4;

/// Cost of looking for a cluster and scanning it, in members scanned.
const LOOKUP: usize = 500;
/// At most this many attributes are exempted from the lookup.
const SPARED_MAX: usize = 4;

/// A set of more values than this leads to no clusters.
const SET_MAX: usize = 16;

/// Clusters up to this size never become matrices.
const RUN_MIN: usize = 48;
/// Candidates of a run that are tested in the time of loading one line of a matrix.
const CANDIDATES_A_LINE: usize = 8;
/// Clusters from this size on have slots of their own.
const FINER: usize = BLOCK / 2;
/// Rows of a cluster's matrix for each block, per member.
const ROWS_A_MEMBER: usize = 4;

/// An attribute that fewer than one conjunction in this many constrain is rare.
const RARE: usize = 1024;

/// Rows of a segment for each conjunction bit: eight rows are a byte of memory per conjunction.
const ROWS: usize = 720;
/// As `ROWS`, for segments that stay in the cache.
const ROWS_SMALL: usize = 1440;
/// Conjunctions of a segment that stays in the cache.
const CACHED: usize = 1 << 17;

type Hulls = [(u16, Hull)];

/// Builds the segment of some classes. Until its changes are installed, no match in it is certain.
pub(crate) fn build(members: Members) -> Segment {
    let Members { mut classes, mut numbers } = members;
    let all: Vec<Conjunction> = classes
        .iter()
        .enumerate()
        .flat_map(|(at, class)| class.starts().map(move |start| Conjunction { class: at as u32, start }))
        .collect();
    let slotter = cut(&classes, &all, CUTS_MAX);
    let chosen = Builder::new(&classes, &numbers, &slotter, &all);
    let routes = chosen.routes();
    let (mut matrix, mut clusters, mut runs) = chosen.lay_out(&routes);
    drop((chosen, routes));
    let new_of = renumber_by_use(classes.len(), &mut matrix, &mut clusters, &mut runs);
    renumber(&mut classes, &mut numbers, new_of);
    let mut accesses = vec![0; slotter.len()];
    for (access, _) in &clusters {
        accesses[usize::from(access.local())] |= match access {
            Access::Number(..) => BY_NUMBER,
            Access::Text(..) => BY_TEXT,
            Access::Any(_) => BY_ANY,
        };
    }
    let conjunctions = all.len();
    let changes = Changes::default();
    Segment { slotter, classes, numbers, changes, matrix, clusters, runs, accesses, conjunctions }
}

/// Renumbers the conjunctions' classes in the order in which a scan reaches them. Returns the new number of each class;
/// classes that no scan reaches keep `u32::MAX`.
fn renumber_by_use(
    classes: usize,
    matrix: &mut Matrix,
    clusters: &mut HashTable<(Access, Cluster)>,
    runs: &mut Runs,
) -> Vec<u32> {
    let mut new_of = vec![u32::MAX; classes];
    let mut used = 0;
    let mut place = |old: u32| {
        let new = &mut new_of[old as usize];
        if *new == u32::MAX {
            *new = used;
            used += 1;
        }
        *new
    };
    let mut renumber = |conjunctions: &mut [Conjunction]| {
        for conjunction in conjunctions {
            conjunction.class = place(conjunction.class);
        }
    };
    renumber(&mut matrix.conjunctions);
    for (_, cluster) in clusters.iter_mut() {
        match cluster {
            Cluster::Run(run) => renumber(runs.members_mut(*run)),
            Cluster::Matrix(matrix) => renumber(&mut matrix.conjunctions),
            Cluster::Finer(own) => renumber(&mut own.matrix.conjunctions),
        }
    }
    new_of
}

fn renumber(classes: &mut Vec<Arc<Class>>, numbers: &mut Vec<u32>, mut new_of: Vec<u32>) {
    let kept = new_of.iter().filter(|new| **new != u32::MAX).count();
    let mut used = kept as u32;
    for new in new_of.iter_mut().filter(|new| **new == u32::MAX) {
        (*new, used) = (used, used + 1); // a class without conjunctions comes last, and is dropped
    }
    for at in 0..classes.len() {
        while new_of[at] as usize != at {
            let to = new_of[at] as usize;
            classes.swap(at, to);
            numbers.swap(at, to);
            new_of.swap(at, to);
        }
    }
    classes.truncate(kept);
    numbers.truncate(kept);
}

/// Cuts all attributes, with at most this many cuts each, at quantiles of the conjunctions' bounds.
fn cut(classes: &[Arc<Class>], all: &[Conjunction], most: usize) -> Slotter {
    #[derive(Default)]
    struct Bounds {
        seen: u32,
        numbers: Vec<u64>,
        texts: Vec<u64>,
        named: Vec<(u64, u32)>,
    }
    let mut bounds: HashMap<u32, Bounds, foldhash::fast::FixedState> = HashMap::default();
    // Step through all conjunctions in an order that is independent of their order of arrival.
    let step = coprime_step(all.len());
    let mut at = 0;
    for _ in 0..all.len() {
        let Conjunction { class, start } = all[at];
        at = (at + step) % all.len();
        let class = &classes[class as usize];
        for test in class.conjunction(start).iter().filter(|test| test.kind != Kind::Always) {
            let bounds = bounds.entry(test.attr).or_default();
            bounds.seen += 1;
            if bounds.seen <= SAMPLE {
                named_bounds(test, class.rich(), &mut bounds.texts, &mut bounds.numbers);
                bounds.named.extend((test.kind == Kind::Text).then_some((test.low, test.high as u32)));
            }
        }
    }
    let mut attributes: Vec<(u32, Bounds)> = bounds.into_iter().collect();
    attributes.sort_unstable_by_key(|(attr, bounds)| (std::cmp::Reverse(bounds.seen), *attr));
    let mut slotter = Slotter::new();
    for (attr, bounds) in attributes {
        let mut cuts = Cuts::new(attr, bounds.texts, bounds.numbers, most);
        cuts.name_texts(&bounds.named);
        slotter.add(cuts);
    }
    slotter
}

fn coprime_step(count: usize) -> usize {
    let gcd = |mut a: usize, mut b: usize| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let near_golden = (count as f64 * 0.618) as usize;
    // A multiple of the count plus one is coprime to it, so one is found.
    (near_golden.max(1)..=count + 1).find(|&step| gcd(step, count) <= 1).unwrap_or(1)
}

/// Appends the keys at which a test's run of values starts, and the keys right after it.
fn named_bounds(test: &Test, rich: &[Rich], texts: &mut Vec<u64>, numbers: &mut Vec<u64>) {
    let both = |keys: &mut Vec<u64>, low: u64, high: u64| keys.extend([low, high.saturating_add(1)]);
    match test.kind {
        Kind::Interval => {
            numbers.extend((test.flags & NO_LOW == 0).then_some(test.low));
            numbers.extend((test.flags & NO_HIGH == 0).then(|| test.high + 1));
        }
        Kind::Number => both(numbers, test.low, test.high),
        Kind::Text => both(texts, test.low, test.low),
        Kind::Rich => {
            let Rich { numbers: number_hull, texts: text_hull, points, .. } = &rich[test.low as usize];
            if let Some((low, high)) = number_hull {
                both(numbers, *low, *high);
            }
            if points.is_empty() {
                if let Some((low, high)) = text_hull {
                    both(texts, *low, *high);
                }
            } else {
                points.iter().take(SET_MAX).for_each(|&(key, _)| both(texts, key, key));
            }
        }
        Kind::Always | Kind::Bool | Kind::Present | Kind::Absent => {}
    }
}

/// Number of conjunctions that require each value.
type Requirements = HashMap<Access, u32, foldhash::fast::FixedState>;

/// The access paths of conjunctions: through accesses, or in the matrix.
#[derive(Default)]
struct Routes {
    /// Sorted. A list for each access would take five times the memory where most have one member.
    clusters: Vec<(Access, u32)>,
    matrix: Vec<u32>,
}

struct Builder<'a> {
    classes: &'a [Arc<Class>],
    numbers: &'a [u32],
    slotter: &'a Slotter,
    all: &'a [Conjunction],
    hulls: Vec<(u16, Hull)>,
    ends: Vec<u32>,
}

impl<'a> Builder<'a> {
    fn new(classes: &'a [Arc<Class>], numbers: &'a [u32], slotter: &'a Slotter, all: &'a [Conjunction]) -> Self {
        let mut builder = Self { classes, numbers, slotter, all, hulls: Vec::new(), ends: vec![0] };
        builder.find_hulls();
        builder
    }

    fn find_hulls(&mut self) {
        let mut found = Vec::new();
        let tests = self.all.iter().map(|at| self.classes[at.class as usize].conjunction(at.start).len());
        self.hulls.reserve_exact(tests.sum());
        self.ends.reserve_exact(self.all.len());
        for conjunction in self.all {
            self.slotter.hulls(&self.classes[conjunction.class as usize], conjunction.start, &mut found);
            self.hulls.extend_from_slice(&found);
            self.ends.push(self.hulls.len() as u32);
        }
    }

    fn hulls(&self, at: u32) -> &Hulls {
        &self.hulls[self.ends[at as usize] as usize..self.ends[at as usize + 1] as usize]
    }

    fn routes(&self) -> Routes {
        let every = 0..self.all.len() as u32;
        if self.all.len() <= SMALL {
            return Routes { matrix: every.collect(), ..Routes::default() };
        }
        let mut requirements = Requirements::default();
        let mut constrained = vec![0_u32; self.slotter.len()];
        let mut points = Vec::new();
        for at in every.clone() {
            self.each_point_set(at, &mut points, |points| {
                for &point in points {
                    *requirements.entry(point).or_default() += 1;
                }
            });
            for &(local, _) in self.hulls(at) {
                constrained[usize::from(local)] += 1;
            }
        }
        let rare = (self.all.len() / RARE) as u32;
        let spared = self.spared(&requirements);
        let mut routes = Routes::default();
        for at in every {
            let mut best: (u32, Vec<Access>) = (u32::MAX, Vec::new());
            self.each_way(at, &requirements, &mut points, |sharing, points| {
                if sharing < best.0 && !spared[usize::from(points[0].local())] {
                    best = (sharing, points.to_vec());
                }
            });
            if best.1.is_empty() {
                let rarest = self.hulls(at).iter().filter(|(_, hull)| hull.low > 0);
                let rarest = rarest.min_by_key(|(local, _)| constrained[usize::from(*local)]);
                best.1.extend(
                    rarest
                        .filter(|(local, _)| constrained[usize::from(*local)] < rare)
                        .map(|&(local, _)| Access::Any(local)),
                );
            }
            if best.1.is_empty() {
                routes.matrix.push(at);
            }
            routes.clusters.extend(best.1.into_iter().map(|access| (access, at)));
        }
        drop(requirements);
        routes.clusters.sort_unstable();
        routes
    }

    /// Returns attributes that get no accesses, although they are the best access path of a few conjunctions. Other
    /// attributes serve those nearly as well, and events save a lookup. In segments larger than the cache a lookup
    /// costs little beside a longer scan.
    fn spared(&self, requirements: &Requirements) -> Vec<bool> {
        let mut spared = vec![false; self.slotter.len()];
        let mut points = Vec::new();
        for _ in 0..SPARED_MAX * usize::from(self.all.len() <= CACHED) {
            // The additional scan length without an attribute; infinite if a conjunction has no other access path.
            let mut longer = vec![None; self.slotter.len()];
            for at in 0..self.all.len() as u32 {
                let (mut best, mut second) = ((u64::MAX, 0), u64::MAX);
                self.each_way(at, requirements, &mut points, |sharing, points| {
                    let (sharing, local) = (u64::from(sharing), usize::from(points[0].local()));
                    if spared[local] {
                    } else if sharing < best.0 {
                        second = best.0;
                        best = (sharing, local);
                    } else {
                        second = second.min(sharing);
                    }
                });
                if best.0 < u64::MAX {
                    let sum: &mut u64 = longer[best.1].get_or_insert(0);
                    *sum = if second < u64::MAX { sum.saturating_add(second - best.0) } else { u64::MAX };
                }
            }
            let least = longer.iter().enumerate().filter_map(|(local, sum)| Some(((*sum)?, local))).min();
            match least {
                Some((sum, local)) if sum <= (LOOKUP * self.all.len()) as u64 => spared[local] = true,
                _ => break,
            }
        }
        spared
    }

    /// Calls `each` with the values of each test that may lead to a conjunction, and the number of conjunctions
    /// requiring them.
    fn each_way(
        &self,
        at: u32,
        requirements: &Requirements,
        points: &mut Vec<Access>,
        mut each: impl FnMut(u32, &[Access]),
    ) {
        let most = (self.all.len() / SELECTIVE) as u32;
        self.each_point_set(at, points, |points| {
            let sharing = points.iter().map(|point| requirements[point]).sum();
            if sharing < most {
                each(sharing, points);
            }
        });
    }

    /// Calls `each` with the allowed values of each test that allows only a few.
    fn each_point_set(&self, at: u32, points: &mut Vec<Access>, mut each: impl FnMut(&[Access])) {
        let Conjunction { class, start } = self.all[at as usize];
        let class = &self.classes[class as usize];
        for test in class.conjunction(start) {
            let local = self.slotter.local(test.attr);
            points.clear();
            match test.kind {
                _ if local == 0 => {}
                Kind::Number => points.push(Access::Number(local, test.low)),
                Kind::Text => points.push(Access::Text(local, test.high as u32)),
                Kind::Rich => accesses_of(&class.rich()[test.low as usize], local, points),
                _ => {}
            }
            if !points.is_empty() {
                each(points);
            }
        }
    }

    fn lay_out(&self, routes: &Routes) -> (Matrix, HashTable<(Access, Cluster)>, Runs) {
        let budget = if self.all.len() <= CACHED { ROWS_SMALL } else { ROWS };
        let spare = self.all.len() / routes.matrix.len().max(1);
        let matrix = self.matrix(&routes.matrix, budget * spare.clamp(1, 4), None);
        let groups = || routes.clusters.chunk_by(|one, other| one.0 == other.0);
        let mut clusters = HashTable::with_capacity(groups().count());
        let mut runs = Runs::default();
        let mut members: Vec<u32> = Vec::new();
        for group in groups() {
            let access = group[0].0;
            members.clear();
            members.extend(group.iter().map(|(_, at)| at));
            let members = &*members;
            let cluster = if self.is_better_as_matrix(members) {
                let budget = budget.min(ROWS_A_MEMBER * members.len() / members.len().div_ceil(BLOCK));
                if members.len() >= FINER {
                    Cluster::Finer(Box::new(self.finer(members, budget, access)))
                } else {
                    Cluster::Matrix(Box::new(self.matrix(members, budget, Some((self.attr(access), access)))))
                }
            } else {
                let conjunctions = members.iter().map(|&at| self.all[at as usize]);
                let row = |at: usize, columns: &_| self.row(members[at], columns, Some((self.attr(access), access)));
                Cluster::Run(runs.push(conjunctions, |at| self.hulls(members[at]), row, access.local()))
            };
            clusters.insert_unique(hash(access), (access, cluster), |(access, _)| hash(*access));
        }
        runs.shrink();
        (matrix, clusters, runs)
    }

    /// Whether scanning the matrix of a cluster costs less than testing its members one by one.
    fn is_better_as_matrix(&self, members: &[u32]) -> bool {
        if members.len() <= RUN_MIN {
            return false;
        }
        let mut locals: Vec<u16> = members.iter().flat_map(|&at| self.hulls(at)).map(|&(local, _)| local).collect();
        locals.sort_unstable();
        locals.dedup();
        members.len() > CANDIDATES_A_LINE * locals.len() * members.len().div_ceil(BLOCK)
    }

    /// Builds the matrix of some conjunctions, which are reached by this access of an attribute, if any.
    fn matrix(&self, members: &[u32], rows_max: usize, access: Option<(u32, Access)>) -> Matrix {
        let order = in_order(members, |at| self.hulls(at), self.slotter);
        let conjunctions = order.iter().map(|&at| self.all[at as usize]).collect();
        let mut matrix = Matrix::build(conjunctions, |place| self.hulls(order[place]), self.slotter, rows_max);
        matrix.inner = self.inner(&order, &matrix, access);
        matrix
    }

    fn attr(&self, access: Access) -> u32 {
        self.slotter.cuts[usize::from(access.local())].attr
    }

    /// Returns the inner hulls of a matrix's conjunctions, or None if they constrain too many attributes.
    fn inner(&self, order: &[u32], matrix: &Matrix, access: Option<(u32, Access)>) -> Option<Inner> {
        let implied = access.map_or(0, |(attr, _)| self.slotter.local(attr));
        let mut columns = [0; COLUMNS];
        for (at, local) in matrix.locals().filter(|&local| local != implied).enumerate() {
            *columns.get_mut(at)? = local;
        }
        Some(Inner { columns, rows: order.iter().map(|&at| self.row(at, &columns, access)).collect() })
    }

    /// Returns a conjunction's inner hulls in these columns, for events that reach it by this access of an attribute.
    fn row(&self, at: u32, columns: &[u16; COLUMNS], access: Option<(u32, Access)>) -> Row {
        let Conjunction { class, start } = self.all[at as usize];
        let (class, number) = (&self.classes[class as usize], self.numbers[class as usize]);
        let (mut hulls, mut whole) = ([Some(Hull::OPEN); COLUMNS], start == 0);
        for test in class.conjunction(start) {
            let implied = access.is_some_and(|(attr, access)| attr == test.attr && access.implies(test));
            if implied || test.kind == Kind::Always {
                continue;
            }
            let local = self.slotter.local(test.attr);
            match columns.iter().position(|&column| column == local && local != 0) {
                Some(column) => hulls[column] = self.slotter.cuts[usize::from(local)].inner_of_test(test),
                None => whole = false,
            }
        }
        Row::new(hulls, whole, class.holders(), number)
    }

    fn finer(&self, members: &[u32], rows_max: usize, access: Access) -> Finer {
        let all: Vec<Conjunction> = members.iter().map(|&at| self.all[at as usize]).collect();
        let slotter = cut(self.classes, &all, CUTS_FINER);
        let own = Builder::new(self.classes, self.numbers, &slotter, &all);
        let every: Vec<u32> = (0..all.len() as u32).collect();
        let matrix = own.matrix(&every, rows_max, Some((self.attr(access), access)));
        drop(own);
        Finer { slotter, matrix }
    }
}

/// Appends the values that a rich constraint allows, if they are few and it allows no others.
fn accesses_of(rich: &Rich, local: u16, points: &mut Vec<Access>) {
    let constraint = &rich.constraint;
    if constraint.absent || constraint.others || constraint.bools != [false; 2] {
        return;
    }
    if let Some(set) = &constraint.texts {
        if set.points.as_ref().is_none_or(|texts| texts.len() > SET_MAX) {
            return;
        }
        points.extend(rich.points.iter().map(|&(_, id)| Access::Text(local, id)));
    }
    if let Some(set) = &constraint.numbers {
        let few = set.points.as_ref().filter(|numbers| numbers.len() <= SET_MAX);
        let keys: Option<Vec<u64>> = few.and_then(|numbers| numbers.iter().map(crate::number::Number::key).collect());
        match keys {
            Some(keys) => points.extend(keys.into_iter().map(|key| Access::Number(local, key))),
            None => points.clear(),
        }
    }
}
