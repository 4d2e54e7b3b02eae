//! Resolves the services of a fleet and its pools, and checks that the demand can be served at all.

use sandtable_core::error::Error;
use sandtable_hardware::{Fleet, Pool, SECOND, Service};
use serde_json::{Value, json};

use super::number;
use crate::spec::{DemandSpec, Group, ServingSpec, Source, Spec};

/// The fleet with its pools and what it serves.
pub(super) fn serve(source: &Source, spec: &Spec, groups: &[Group], fleet: Fleet) -> Result<Fleet, Error> {
    let pools: Vec<Pool> = groups.iter().flat_map(|group| (0..group.nodes).map(|_| group.pool)).collect();
    let Some(serving) = &spec.serving else { return Ok(fleet.serving(Vec::new(), true, &pools)) };
    if serving.services.is_empty() {
        return Err(source.error("serving.services", "expected at least one service, found none", "here"));
    }
    if fleet.sharing != sandtable_hardware::Sharing::Exclusive {
        return Err(source.error("serving", "services need GPUs that are not shared", "here"));
    }
    let service = |(name, of): (&String, &crate::spec::ServiceSpec)| Service {
        name: name.clone(),
        cold_start: of.cold_start.0,
        slo: of.slo.map(|slo| slo.0),
    };
    let services = serving.services.iter().map(service).collect();
    let fleet = fleet.serving(services, serving.keeps_models.unwrap_or(true), &pools);
    check(source, serving, &fleet)?;
    Ok(fleet)
}

/// Whether what is asked can be: tasks that keep more GPUs busy than there are would wait ever longer.
fn check(source: &Source, serving: &ServingSpec, fleet: &Fleet) -> Result<(), Error> {
    let wrong = |place: &str, message: &str| Err(source.error(&format!("serving.demand.{place}"), message, "here"));
    let (over, lengths, busy) = match &serving.demand {
        DemandSpec::Recorded => return Ok(()),
        DemandSpec::Uniform { tasks, over, seconds } => {
            let work = f64::from(*tasks) * (f64::from(seconds.0) + f64::from(seconds.1)) / 2.0;
            (over, seconds, work / over.0.as_secs_f64())
        }
        DemandSpec::Diurnal { trough, peak, period, over, seconds, bursts } => {
            if !(*trough >= 0.0 && peak >= trough && *peak > 0.0 && *peak <= 1e6) {
                return wrong("peak", &format!("expected 0 <= trough <= peak, found {trough} and {peak}"));
            }
            if period.0 < SECOND {
                return wrong("period", "expected at least 1s");
            }
            let storm = bursts.as_ref().map_or(Ok(1.0), |bursts| {
                let (every, lasting) = (bursts.every.0.as_micros_f64(), bursts.lasting.0.as_micros_f64());
                match (1.0..=1000.0).contains(&bursts.times) && bursts.every.0 >= SECOND && bursts.lasting.0 >= SECOND {
                    true => Ok(1.0 + (bursts.times - 1.0) * lasting / (every + lasting)),
                    false => {
                        wrong("bursts", "expected times from 1 to 1000, every and lasting at least 1s").map(|()| 1.0)
                    }
                }
            })?;
            (over, seconds, (trough + peak) / 2.0 * storm)
        }
    };
    if lengths.0 == 0 || lengths.1 < lengths.0 || lengths.1 > 1_000_000 {
        let message = format!("expected whole seconds from at least 1 up, found {} to {}", lengths.0, lengths.1);
        return wrong("seconds", &message);
    }
    if over.0 < SECOND {
        return wrong("over", "expected at least 1s");
    }
    let mean = (f64::from(lengths.0) + f64::from(lengths.1)) / 2.0;
    if busy * over.0.as_secs_f64() / mean > 1e7 {
        return wrong("over", "more than ten million tasks");
    }
    let own = fleet.nodes.iter().filter(|node| node.pool == Pool::Inference).map(|node| node.gpus).sum::<u32>();
    let (gpus, whose) =
        if own > 0 { (own, "the nodes of the inference pool have") } else { (fleet.gpus(), "the fleet has") };
    if busy > f64::from(gpus) {
        let message =
            format!("tasks would keep {busy:.1} GPUs busy in the mean, {whose} {gpus}: they would wait ever longer");
        return Err(source.error("serving.demand", &message, "this demand"));
    }
    Ok(())
}

/// What is asked, as a part of a cell's identity.
pub(super) fn demand_key(serving: Option<&ServingSpec>) -> Value {
    match serving.map(|serving| &serving.demand) {
        None | Some(DemandSpec::Recorded) => Value::Null,
        Some(DemandSpec::Uniform { tasks, over, seconds }) => {
            json!({"uniform": {"tasks": tasks, "over": over.0, "seconds": seconds}})
        }
        Some(DemandSpec::Diurnal { trough, peak, period, over, seconds, bursts }) => {
            let bursts = bursts.as_ref().map(|of| json!([of.every.0, of.lasting.0, number(of.times)]));
            json!({"diurnal": {
                "trough": number(*trough), "peak": number(*peak), "period": period.0, "over": over.0,
                "seconds": seconds, "bursts": bursts,
            }})
        }
    }
}

/// Services and pools, as a part of a fleet's key; null where there are none.
pub(super) fn fleet_key(fleet: &Fleet) -> Value {
    let inference = |id: &usize| fleet.nodes[*id].pool == Pool::Inference;
    let lent: Vec<usize> = (0..fleet.nodes.len()).filter(inference).collect();
    if fleet.services.is_empty() && lent.is_empty() {
        return Value::Null;
    }
    json!({"services": fleet.services, "keeps_models": fleet.keeps_models, "inference": lent})
}
