//! Generates the tasks of services over time, from a seed.

use std::sync::Arc;

use sandtable_hardware::random::Stream;
use sandtable_hardware::{Duration, Instant, SECOND};

use super::{Asked, DemandSpec, Row};

/// Draws the tasks of services, by submission: whole seconds, as recorded ones are.
pub fn tasks(demand: &DemandSpec, services: &[String], seed: u64) -> Vec<Row> {
    let mut stream = Stream::new(seed, "serving/demand");
    let mut at: Vec<Instant> = Vec::new();
    let lengths = match demand {
        DemandSpec::Recorded => return Vec::new(),
        DemandSpec::Uniform { tasks, over, seconds } => {
            at.extend(
                (0..*tasks).map(|_| Instant::at(Duration::from_micros_f64(stream.uniform() * over.0.as_micros_f64()))),
            );
            at.sort_unstable();
            *seconds
        }
        DemandSpec::Diurnal { trough, peak, period, over, seconds, bursts } => {
            let mean = (f64::from(seconds.0) + f64::from(seconds.1)) / 2.0;
            let busy = |t: f64| {
                let angle = std::f64::consts::TAU * t / (period.0.as_secs_f64()) - std::f64::consts::FRAC_PI_2;
                trough + (peak - trough) * (1.0 + libm::sin(angle)) / 2.0
            };
            // Bursts come independently; within one the rate is so many times as high.
            let mut storms: Vec<(f64, f64)> = Vec::new();
            let end = over.0.as_secs_f64();
            if let Some(bursts) = bursts {
                let (every, lasting) = (bursts.every.0.as_secs_f64(), bursts.lasting.0.as_secs_f64());
                let mut storm = Stream::new(seed, "serving/bursts");
                let mut t = storm.exponential(every);
                while t < end {
                    storms.push((t, t + lasting));
                    t += lasting + storm.exponential(every);
                }
            }
            let times = bursts.as_ref().map_or(1.0, |bursts| bursts.times);
            let most = peak * times / mean;
            let mut t = 0.0;
            loop {
                t += stream.exponential(1.0 / most);
                if t >= end {
                    break;
                }
                let stormy = storms.iter().any(|(from, to)| (*from..*to).contains(&t));
                if stream.uniform() * most < busy(t) / mean * if stormy { times } else { 1.0 } {
                    at.push(Instant::at(Duration::from_micros_f64(t * SECOND.as_micros_f64())));
                }
            }
            *seconds
        }
    };
    let task = |service: &String| Asked { service: Some(service.clone()), preemptible: false, ..Asked::gpus(1) };
    let asked: Vec<Arc<Asked>> = services.iter().map(task).map(Arc::new).collect();
    let mut draws = Stream::new(seed, "serving/tasks");
    let row = |(index, at): (usize, Instant)| {
        let asked = asked[(draws.uniform() * services.len() as f64) as usize].clone();
        let span = f64::from(lengths.1 - lengths.0 + 1);
        let seconds = u64::from(lengths.0) + (draws.uniform() * span) as u64;
        let submit = Instant::at(at.since_start() / SECOND * SECOND);
        Row { asked, ..Row::new(format!("task-{index}"), submit, 1, seconds * SECOND) }
    };
    at.into_iter().enumerate().map(row).collect()
}
