// Licensed to the Apache Software Foundation (ASF) under one
// or more contributor license agreements.  See the NOTICE file
// distributed with this work for additional information
// regarding copyright ownership.  The ASF licenses this file
// to you under the Apache License, Version 2.0 (the
// "License"); you may not use this file except in compliance
// with the License.  You may obtain a copy of the License at
//
//   http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing,
// software distributed under the License is distributed on an
// "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY
// KIND, either express or implied.  See the License for the
// specific language governing permissions and limitations
// under the License.

//! Interleaved timing of two engines, and the statistics of it.
//!
//! A *sample* is the mean time of one unit (one plan) over a fixed number of
//! iterations, chosen so that a sample takes a few milliseconds. Samples are taken
//! in pairs whose order alternates: base fork, fork base, base fork, ... (ABBA).
//! Slow changes of the machine (frequency, neighbours) hit both halves of a pair
//! alike and cancel in its ratio, and what depends on going first or second
//! cancels over two pairs.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;

use crate::alloc::{self, Count};

/// A sample lasts at least about this long, on the faster engine too.
const MIN_SAMPLE: Duration = Duration::from_millis(3);

/// Both engines run in turn for at least this long before they are timed.
const WARM_UP: Duration = Duration::from_millis(20);

/// An entry whose plans take so long that all pairs don't fit into this time
/// gets fewer pairs, but at least [`MIN_PAIRS`].
const BUDGET: Duration = Duration::from_secs(20);

/// See [`BUDGET`]. The fewest pairs for which [`median_interval`] has 95 %.
const MIN_PAIRS: usize = 6;

/// The count of allocations is the smallest of this many runs, because the
/// iteration order of hash maps makes it differ slightly.
const ALLOCATION_RUNS: usize = 3;

/// After a run that takes longer, no further one is made for the allocations:
/// a plan that large makes so many that the difference does not show.
const LONG_RUN: Duration = Duration::from_secs(1);

/// One of the two engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What is compared against
    Base,
    /// What is judged
    Fork,
}

impl Side {
    /// Both engines.
    pub const BOTH: [Side; 2] = [Side::Base, Side::Fork];
}

/// Result of the timed pairs of one entry.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Run {
    /// Number of pairs taken
    pub pairs: usize,
    /// Units a sample
    pub iterations: u64,
    /// Median time of one unit on the base, in nanoseconds
    pub base_ns: f64,
    /// Median time of one unit on the fork, in nanoseconds
    pub fork_ns: f64,
    /// Median of the pairs' ratios fork / base (not the ratio of the medians)
    pub ratio: f64,
    /// Lower end of the 95 % interval of the median ratio
    pub low: f64,
    /// Upper end of the 95 % interval of the median ratio
    pub high: f64,
}

/// An engine that failed while it was measured.
pub type Failure = (Side, anyhow::Error);

/// Times `run` (one unit on the given engine) in up to `pairs` pairs.
pub fn measure(run: &mut dyn FnMut(Side) -> Result<()>, pairs: usize) -> Result<Run, Failure> {
    let fastest = warm_up(run)?;
    let iterations = iterations(fastest);
    let mut base = Vec::with_capacity(pairs);
    let mut fork = Vec::with_capacity(pairs);
    let start = Instant::now();
    for pair in 0..pairs {
        // Only full ABBA rounds, so that both orders weigh the same.
        if pair >= MIN_PAIRS && pair % 2 == 0 && start.elapsed() > BUDGET {
            break;
        }
        if pair % 2 == 0 {
            base.push(sample(run, Side::Base, iterations)?);
            fork.push(sample(run, Side::Fork, iterations)?);
        } else {
            fork.push(sample(run, Side::Fork, iterations)?);
            base.push(sample(run, Side::Base, iterations)?);
        }
    }
    let ratios = sorted(fork.iter().zip(&base).map(|(f, b)| f / b).collect());
    let (low, high) = median_interval(&ratios);
    Ok(Run {
        pairs: ratios.len(),
        iterations,
        base_ns: median(&sorted(base)),
        fork_ns: median(&sorted(fork)),
        ratio: median(&ratios),
        low,
        high,
    })
}

/// Allocations of one unit on the given engine. Not timed.
pub fn allocations(run: &mut dyn FnMut(Side) -> Result<()>, side: Side) -> Result<Count, Failure> {
    let mut smallest: Option<Count> = None;
    for _ in 0..ALLOCATION_RUNS {
        let start = Instant::now();
        let (result, count) = alloc::count(|| run(side));
        result.map_err(|error| (side, error))?;
        smallest = Some(smallest.map_or(count, |other| other.min(count)));
        if start.elapsed() > LONG_RUN {
            break;
        }
    }
    Ok(smallest.unwrap_or_default())
}

/// Runs both engines in turn and returns the shortest time of one unit, in
/// nanoseconds.
fn warm_up(run: &mut dyn FnMut(Side) -> Result<()>) -> Result<f64, Failure> {
    let start = Instant::now();
    let mut fastest = f64::INFINITY;
    loop {
        for side in Side::BOTH {
            fastest = fastest.min(sample(run, side, 1)?);
        }
        if start.elapsed() >= WARM_UP {
            return Ok(fastest);
        }
    }
}

/// Iterations that make a sample last [`MIN_SAMPLE`] if a unit takes `unit_ns`.
fn iterations(unit_ns: f64) -> u64 {
    // A float to integer cast saturates, so that a time of 0 does no harm.
    ((MIN_SAMPLE.as_nanos() as f64 / unit_ns).ceil() as u64).clamp(1, 1_000_000)
}

/// Mean time of a unit over `iterations`, in nanoseconds.
fn sample(
    run: &mut dyn FnMut(Side) -> Result<()>,
    side: Side,
    iterations: u64,
) -> Result<f64, Failure> {
    let start = Instant::now();
    for _ in 0..iterations {
        run(side).map_err(|error| (side, error))?;
    }
    Ok(start.elapsed().as_nanos() as f64 / iterations as f64)
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// Median of sorted values, NaN if there are none.
pub fn median(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    match n {
        0 => f64::NAN,
        _ if n % 2 == 1 => sorted[n / 2],
        _ => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// 95 % confidence interval of the median of what sorted `values` were drawn from.
///
/// It needs no assumption on the distribution. Each of the `n` values lies below
/// the true median with probability 1/2, so the number of values below it is
/// binomial, X ~ B(n, 1/2). The true median lies below the `k`-th smallest value
/// exactly if fewer than `k` values lie below it, which has the probability
/// P(X <= k - 1), and symmetrically above the `k`-th largest. With the largest `k`
/// for which P(X <= k - 1) <= 2.5 %, the interval from the `k`-th smallest to the
/// `k`-th largest value covers the true median with probability of at least 95 %.
/// For 40 values `k` is 14: the interval goes from the 14th to the 27th value.
///
/// With fewer than 6 values there is no such `k`; the result is then their whole
/// range, and covers less.
pub fn median_interval(sorted: &[f64]) -> (f64, f64) {
    match sorted.len() {
        0 => (f64::NAN, f64::NAN),
        n => {
            let (low, high) = median_ranks(n);
            (sorted[low], sorted[high])
        }
    }
}

/// Indices (from 0) of the ends of [`median_interval`] among `n` sorted values.
fn median_ranks(n: usize) -> (usize, usize) {
    // `probability` is P(X = k), `tail` becomes P(X <= k).
    let mut probability = 0.5_f64.powf(n as f64);
    let mut tail = 0.0;
    let mut k = 0;
    while k < n / 2 {
        tail += probability;
        if tail > 0.025 {
            break;
        }
        probability *= (n - k) as f64 / (k + 1) as f64;
        k += 1;
    }
    match k {
        0 => (0, n.saturating_sub(1)),
        k => (k - 1, n - k),
    }
}

/// Geometric mean of the positive values; `None` if there are none.
pub fn geometric_mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut n) = (0.0, 0_usize);
    for value in values {
        if value > 0.0 {
            sum += value.ln();
            n += 1;
        }
    }
    (n > 0).then(|| (sum / n as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_binomial_tables() {
        // (n, rank of the lower end, rank of the upper end), ranks from 1
        for (n, low, high) in [
            (6, 1, 6),
            (8, 1, 8),
            (9, 2, 8),
            (10, 2, 9),
            (20, 6, 15),
            (40, 14, 27),
            (100, 40, 61),
        ] {
            assert_eq!(median_ranks(n), (low - 1, high - 1), "n = {n}");
        }
    }

    #[test]
    fn ranks_are_symmetric_and_narrow_as_n_grows() {
        let mut covered = 1.0;
        for n in [10, 50, 200, 1000] {
            let (low, high) = median_ranks(n);
            assert_eq!(low + high, n - 1);
            let share = (high - low) as f64 / n as f64;
            assert!(share < covered, "n = {n}");
            covered = share;
        }
    }

    #[test]
    fn few_values_give_their_range() {
        assert_eq!(median_interval(&[1.0, 2.0, 3.0]), (1.0, 3.0));
        assert_eq!(median_interval(&[5.0]), (5.0, 5.0));
        assert!(median_interval(&[]).0.is_nan());
    }

    #[test]
    fn interval_holds_the_median_and_ignores_outliers() {
        let mut values: Vec<f64> = (0..40).map(|i| 1.0 + f64::from(i) / 1000.0).collect();
        values[39] = 1000.0;
        let (low, high) = median_interval(&values);
        assert_eq!((low, high), (values[13], values[26]));
        let median = median(&values);
        assert!(low < median && median < high);
    }

    #[test]
    fn median_of_odd_and_even_counts() {
        assert_eq!(median(&[1.0, 2.0, 9.0]), 2.0);
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), 3.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn geometric_mean_of_ratios() {
        let mean = geometric_mean([2.0, 0.5]).unwrap();
        assert!((mean - 1.0).abs() < 1e-12);
        let mean = geometric_mean([1.0, 2.0, 4.0]).unwrap();
        assert!((mean - 2.0).abs() < 1e-12);
        assert_eq!(geometric_mean([]), None);
        assert_eq!(geometric_mean([0.0]), None);
    }

    #[test]
    fn samples_last_long_enough() {
        assert_eq!(iterations(1e9), 1);
        assert_eq!(iterations(3e6), 1);
        assert_eq!(iterations(1e6), 3);
        assert_eq!(iterations(0.0), 1_000_000);
    }

    #[test]
    fn measures_in_abba_order_and_reports_who_failed() {
        let mut order = Vec::new();
        let run = measure(
            &mut |side| {
                order.push(side);
                // Long enough for one iteration a sample and one warm-up round.
                std::thread::sleep(Duration::from_millis(11));
                Ok(())
            },
            4,
        )
        .unwrap();
        assert_eq!((run.pairs, run.iterations), (4, 1));
        let (b, f) = (Side::Base, Side::Fork);
        assert_eq!(order[order.len() - 8..], [b, f, f, b, b, f, f, b]);

        let failure = measure(
            &mut |side| match side {
                Side::Base => Ok(()),
                Side::Fork => anyhow::bail!("no"),
            },
            4,
        );
        assert_eq!(failure.unwrap_err().0, Side::Fork);
    }

    #[test]
    fn allocations_are_counted() {
        let count = allocations(
            &mut |_| {
                std::hint::black_box(Box::new([0_u64; 4]));
                Ok(())
            },
            Side::Base,
        )
        .unwrap();
        // Other tests run beside this one, so at least rather than exactly.
        assert!(count.allocations >= 1 && count.bytes >= 32);
    }
}
