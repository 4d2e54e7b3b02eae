//! Allocations as the genetic search varies them: GPUs of each job on each node, jobs row by row.
//
// Follows AdaptDL's simulator (github.com/petuum/adaptdl, branch osdi21-artifact, simulator/), pollux.py, which is
// Copyright 2020 Petuum, Inc. All Rights Reserved. Licensed under the Apache License, Version 2.0 (LICENSE-APACHE).
// Changed: written anew in Rust; see THIRD-PARTY.md.

use sandtable_policy::Draws;

/// What holds for all allocations of one search.
pub struct Terrain<'a> {
    /// GPUs of each node that may be given away.
    pub free: &'a [u32],
    /// Most GPUs of each job.
    pub most: &'a [u32],
    /// What is allocated now.
    pub present: &'a [u8],
}

impl Terrain<'_> {
    fn nodes(&self) -> usize {
        self.free.len()
    }

    /// One cut between the jobs: those before it of one parent, those after it of the other.
    pub fn cross(&self, a: &[u8], b: &[u8], draws: &mut Draws) -> Vec<u8> {
        let cut = draws.below(self.most.len() + 1) * self.nodes();
        [&a[..cut], &b[cut..]].concat()
    }

    /// Rows fall back to what is, or lose GPUs, or grow on nodes that have free ones.
    pub fn mutate(&self, genes: &mut [u8], draws: &mut Draws) {
        let (nodes, jobs) = (self.nodes(), self.most.len());
        for (row, now) in genes.chunks_mut(nodes).zip(self.present.chunks(nodes)) {
            if chance(draws, 0.1) {
                row.copy_from_slice(now);
            }
            if chance(draws, 0.1) {
                for gpus in row.iter_mut() {
                    if *gpus > 0 && chance(draws, 0.1) {
                        *gpus = 0;
                    }
                }
            }
        }
        let mut used = vec![0u32; nodes];
        let mut jobs_on = vec![0u32; nodes];
        for (at, gpus) in genes.iter().enumerate() {
            used[at % nodes] += u32::from(*gpus);
            jobs_on[at % nodes] += u32::from(*gpus > 0);
        }
        let own = 1.0 / jobs as f64;
        for node in (0..nodes).filter(|node| used[*node] < self.free[*node]) {
            let resident = 1.0 / f64::from(jobs_on[node].max(1));
            for job in 0..jobs {
                let gpus = &mut genes[job * nodes + node];
                let grows = if *gpus > 0 { own + resident - own * resident } else { own };
                if chance(draws, grows) {
                    let room = self.free[node].saturating_sub(u32::from(*gpus));
                    *gpus += draws.below(room as usize + 1) as u8;
                }
            }
        }
    }

    /// Makes an allocation one that can be: no two jobs of several nodes on one node, no more than each job and each
    /// node may have, earlier jobs first.
    pub fn repair(&self, genes: &mut [u8], draws: &mut Draws) {
        let (nodes, jobs) = (self.nodes(), self.most.len());
        let spans = |row: &[u8]| row.iter().filter(|gpus| **gpus > 0).count() > 1;
        let wide: Vec<bool> = genes.chunks(nodes).map(spans).collect();
        for node in 0..nodes {
            let mut seen = 0;
            for job in 0..jobs {
                let gpus = &mut genes[job * nodes + node];
                if *gpus > 0 {
                    seen += u32::from(wide[job]);
                }
                // From the second on all later rows lose it: the artifact's cumulative sum does so.
                if seen > 1 {
                    *gpus = 0;
                }
            }
        }
        let mut order: Vec<usize> = (0..nodes).collect();
        for (row, most) in genes.chunks_mut(nodes).zip(self.most) {
            let sum: u32 = row.iter().map(|gpus| u32::from(*gpus)).sum();
            let several = row.iter().filter(|gpus| **gpus > 0).count();
            if sum <= *most && several <= NODES {
                continue;
            }
            draws.shuffle(&mut order);
            let (mut left, mut used) = (*most, 0);
            for node in &order {
                let gpus = &mut row[*node];
                *gpus = if used < NODES { (*gpus).min(left.min(255) as u8) } else { 0 };
                left -= u32::from(*gpus);
                used += usize::from(*gpus > 0);
            }
        }
        for node in 0..nodes {
            let mut left = self.free[node];
            for job in 0..jobs {
                let gpus = &mut genes[job * nodes + node];
                *gpus = (*gpus).min(left.min(255) as u8);
                left -= u32::from(*gpus);
            }
        }
    }
}

/// Most nodes of a job.
const NODES: usize = 16;

fn chance(draws: &mut Draws, p: f64) -> bool {
    ((draws.integer() >> 11) as f64) < p * 9_007_199_254_740_992.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_drawn_becomes_an_allocation_that_can_be() {
        let mut draws = Draws::new(3);
        let (free, most) = ([4, 2, 0, 3], [1, 4, 9, 2, 3]);
        for _ in 0..300 {
            let random = |draws: &mut Draws| (0..20).map(|_| draws.below(5) as u8).collect::<Vec<u8>>();
            let present = random(&mut draws);
            let terrain = Terrain { free: &free, most: &most, present: &present };
            let (a, b) = (random(&mut draws), random(&mut draws));
            let mut genes = terrain.cross(&a, &b, &mut draws);
            terrain.mutate(&mut genes, &mut draws);
            terrain.repair(&mut genes, &mut draws);
            for (node, free) in free.iter().enumerate() {
                let column = || genes.chunks(4).map(|row| u32::from(row[node]));
                assert!(column().sum::<u32>() <= *free);
                let wide = |row: &&[u8]| row[node] > 0 && row.iter().filter(|gpus| **gpus > 0).count() > 1;
                assert!(genes.chunks(4).filter(wide).count() <= 1);
            }
            for (row, most) in genes.chunks(4).zip(most) {
                assert!(row.iter().map(|gpus| u32::from(*gpus)).sum::<u32>() <= most);
            }
        }
    }
}
