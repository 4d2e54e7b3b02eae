//! Jobs that fill a cluster one after the other and never leave, as pods do in the experiments of Weng et al. (ATC 2023).

use sandtable_hardware::random::Stream;
use sandtable_hardware::{Duration, Instant};
use serde::Serialize;

use super::{MAX_JOBS, Row};

/// How a cluster is filled.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fill {
    /// Most GPUs that jobs ask for together, over those of the fleet.
    pub share: f64,
    /// From one job to the next.
    pub every: Duration,
}

/// How long each job lasts: longer than any filling.
pub const LASTS: Duration = Duration::from_secs(10_000 * 86_400);

/// The jobs of a trace in an order that the seed draws. Where all together ask for less than the share of so many GPUs, jobs are drawn again, each as likely
/// as any other, until the next would ask for more; where they ask for more, those that do so alone and then the last are left out.
///
/// # Errors
/// In words: jobs without GPUs alone, jobs that each ask for more than the share, or too many jobs.
pub fn fill(trace: &[Row], fill: Fill, gpus: u64, seed: u64) -> Result<Vec<Row>, String> {
    let milli = |row: &Row| u128::from(row.gpus) * u128::from(row.share);
    let most = (fill.share * gpus as f64 * 1000.0) as u128;
    let mut stream = Stream::new(seed, "fill");
    let mut order: Vec<usize> = (0..trace.len()).collect();
    stream.shuffle(&mut order);
    let mut asked: u128 = trace.iter().map(milli).sum();
    if asked == 0 {
        return Err("no job asks for a GPU: they never fill a cluster".into());
    }
    if asked > most {
        order.retain(|index| milli(&trace[*index]) <= most);
        asked = order.iter().map(|index| milli(&trace[*index])).sum();
        if asked == 0 {
            return Err("each of its jobs asks for more GPUs than are to be filled".into());
        }
        while asked > most {
            asked -= order.pop().map_or(0, |last| milli(&trace[last]));
        }
    } else {
        loop {
            let drawn = stream.below(trace.len());
            asked += milli(&trace[drawn]);
            if asked > most {
                break;
            }
            order.push(drawn);
            if order.len() > MAX_JOBS {
                return Err(format!("more than {MAX_JOBS} jobs fill it"));
            }
        }
    }
    let mut again = vec![0u32; trace.len()];
    let rows = order.into_iter().enumerate().map(|(at, index)| {
        let mut row = Row { submit: Instant::at(fill.every * at as u64), duration: LASTS, ..trace[index].clone() };
        (row.declared, row.deadline, row.recorded) = (None, None, None);
        again[index] += 1;
        if again[index] > 1 {
            row.name = format!("{}#{}", row.name, again[index]).into();
        }
        row
    });
    Ok(rows.collect())
}

#[cfg(test)]
mod tests {
    use sandtable_hardware::SECOND;

    use super::*;

    fn rows(gpus: &[u32]) -> Vec<Row> {
        let row = |(at, gpus): (usize, &u32)| Row::new(format!("j{at}"), Instant::START, *gpus, SECOND);
        gpus.iter().enumerate().map(row).collect()
    }

    #[test]
    fn it_stops_before_the_job_that_would_be_too_much() {
        let how = Fill { share: 1.3, every: 2 * SECOND };
        for seed in 0..20 {
            // Ten GPUs: 13 are asked for at most, of 6 that all ask for.
            let filled = fill(&rows(&[1, 2, 3, 0]), how, 10, seed).expect("filled");
            let asked: u32 = filled.iter().map(|row| row.gpus).sum();
            assert!((11..=13).contains(&asked), "{asked}");
            let names: std::collections::BTreeSet<_> = filled.iter().map(|row| row.name.clone()).collect();
            assert_eq!(names.len(), filled.len());
            assert!(["j0", "j1", "j2", "j3"].iter().all(|name| names.contains(*name)));
            assert_eq!(filled[2].submit, Instant::at(4 * SECOND));
            // Two GPUs: what is too much is left out.
            let filled = fill(&rows(&[1, 2, 3, 0]), how, 2, seed).expect("filled");
            let asked: u32 = filled.iter().map(|row| row.gpus).sum();
            assert!(!filled.is_empty() && asked <= 2, "{asked}");
        }
        let order = |seed| fill(&rows(&[1; 8]), how, 10, seed).expect("filled").into_iter().map(|row| row.name);
        assert!(order(1).eq(order(1)) && !order(1).eq(order(2)));
    }

    #[test]
    fn jobs_that_are_each_too_large_never_fill_it() {
        let why = fill(&rows(&[4, 8, 0]), Fill { share: 1.0, every: SECOND }, 2, 0);
        assert_eq!(why, Err("each of its jobs asks for more GPUs than are to be filled".into()));
    }

    #[test]
    fn jobs_without_gpus_alone_never_fill_it() {
        let why = fill(&rows(&[0, 0]), Fill { share: 1.0, every: SECOND }, 10, 0);
        assert_eq!(why, Err("no job asks for a GPU: they never fill a cluster".into()));
    }
}
