//! The parts that GPUs can be cut into and that do not disturb each other (NVIDIA's MIG instances).

use serde::{Deserialize, Serialize};

use crate::{Fleet, FleetError, GpuType, Job, PartId, Sharing, TypeId};

/// A size of a part: how many of a GPU's slices it takes, and where it may begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "Part", deny_unknown_fields)]
pub struct PartProfile {
    /// Its name: `1g.10gb`.
    pub name: String,
    /// Slices that it takes, one after the other.
    pub slices: u32,
    /// Device memory, MiB; 0: unknown, and then as much as the GPU has.
    #[serde(default)]
    pub memory_mib: u32,
    /// Slices at which it may begin, from 0, ascending.
    pub starts: Vec<u32>,
}

/// Which parts the GPUs of a fleet can be cut into.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parts {
    profiles: Vec<Geometry>,
    /// Of each type: the profiles that it has, and their memory, MiB.
    types: Vec<Vec<(PartId, u32)>>,
}

/// What profiles of a name have in common on all types that have it.
#[derive(Clone, Debug, PartialEq)]
struct Geometry {
    name: String,
    slices: u32,
    /// Slices of the whole GPU.
    whole: u32,
    starts: Vec<u32>,
}

impl Parts {
    /// Most slices of a GPU.
    pub const SLICES: u32 = 64;

    fn entries(&self, gpu_type: TypeId) -> &[(PartId, u32)] {
        self.types.get(gpu_type.index()).map_or(&[], Vec::as_slice)
    }

    /// The parts that GPUs of a type can be cut into.
    pub fn of_type(&self, gpu_type: TypeId) -> impl Iterator<Item = (PartId, PartProfile)> {
        self.entries(gpu_type).iter().map(|(part, memory_mib)| {
            let Geometry { name, slices, starts, .. } = &self.profiles[part.index()];
            let profile =
                PartProfile { name: name.clone(), slices: *slices, memory_mib: *memory_mib, starts: starts.clone() };
            (*part, profile)
        })
    }

    /// Whether GPUs of a type can be cut into a part.
    pub fn has(&self, gpu_type: TypeId, part: PartId) -> bool {
        self.memory_mib(gpu_type, part).is_some()
    }

    /// Memory of a part of a type's GPUs, MiB, 0 if unknown; none where they can't be cut so.
    pub fn memory_mib(&self, gpu_type: TypeId, part: PartId) -> Option<u32> {
        self.entries(gpu_type).iter().find(|(known, _)| *known == part).map(|(_, memory_mib)| *memory_mib)
    }

    /// The name of a part.
    pub fn name(&self, part: PartId) -> &str {
        &self.profiles[part.index()].name
    }

    /// Slices that a part takes.
    pub fn slices(&self, part: PartId) -> u32 {
        self.profiles[part.index()].slices
    }

    /// Slices at which a part may begin.
    pub fn starts(&self, part: PartId) -> &[u32] {
        &self.profiles[part.index()].starts
    }

    /// Thousandths of a GPU that a part counts as: its slices of the GPU's, rounded down.
    pub fn share(&self, part: PartId) -> u32 {
        let Geometry { slices, whole, .. } = self.profiles[part.index()];
        Job::WHOLE * slices / whole
    }

    /// Parts of a name, which may be another one on another type.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = PartId> + 'a {
        PartId::first(self.profiles.len()).filter(move |part| self.name(*part) == name)
    }

    /// Names of all parts, each once.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for Geometry { name, .. } in &self.profiles {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }

    /// The id of a profile, which is that of an equal one of another type.
    fn id(&mut self, profile: Geometry) -> PartId {
        let known = self.profiles.iter().position(|known| *known == profile);
        PartId::at(known.unwrap_or_else(|| {
            self.profiles.push(profile);
            self.profiles.len() - 1
        }))
    }
}

impl Fleet {
    /// The same fleet, whose GPUs can be cut into parts; those of its types in their order.
    ///
    /// ```
    /// use sandtable_hardware::catalogue::find;
    /// use sandtable_hardware::{Costs, Fleet, GpuType};
    ///
    /// let a100 = find("A100-SXM4-40GB").expect("a model of the catalogue");
    /// let fleet = Fleet::new(&[(1, 8, GpuType::new(&a100.name, 1.0))], Costs::default(), None)?.cut(&[a100.parts.clone()])?;
    /// let part = fleet.parts.named("3g.20gb").next().expect("a part of an A100");
    /// assert_eq!((fleet.parts.share(part), fleet.parts.starts(part)), (500, &[0, 4][..]));
    /// # Ok::<(), sandtable_hardware::FleetError>(())
    /// ```
    ///
    /// # Errors
    /// No profile at all, or one that can't be: see [`FleetError::Part`].
    pub fn cut(mut self, by_type: &[Vec<PartProfile>]) -> Result<Fleet, FleetError> {
        let mut parts = Parts::default();
        for (GpuType { name: kind, memory_mib: whole, .. }, profiles) in self.types.iter().zip(by_type) {
            let slices_of_gpu = profiles.iter().flat_map(PartProfile::ends).max().unwrap_or(0);
            for (at, profile) in profiles.iter().enumerate() {
                let twice = profiles[..at].iter().any(|other| other.name == profile.name);
                let large = *whole > 0 && profile.memory_mib > *whole;
                let large = large.then(|| format!("it has {} MiB, the GPU {whole}", profile.memory_mib));
                let twice = twice.then(|| "two parts have this name".to_string());
                if let Some(why) = profile.wrong().or(twice).or(large) {
                    return Err(FleetError::Part { part: profile.name.clone(), kind: kind.clone(), why });
                }
            }
            let list = profiles.iter().map(|profile| {
                let PartProfile { name, slices, memory_mib, starts } = profile.clone();
                (parts.id(Geometry { name, slices, whole: slices_of_gpu as u32, starts }), memory_mib)
            });
            let list = list.collect();
            parts.types.push(list);
        }
        if parts.profiles.is_empty() {
            return Err(FleetError::NoParts { kinds: self.types.iter().map(|kind| kind.name.clone()).collect() });
        }
        self.sharing = Sharing::Parts;
        self.parts = parts;
        Ok(self)
    }

    /// Which jobs may be on a GPU of a type together: of a fleet whose GPUs are cut some types may have no parts.
    pub fn sharing_of(&self, gpu_type: TypeId) -> Sharing {
        let is_whole = self.sharing == Sharing::Parts && self.parts.entries(gpu_type).is_empty();
        if is_whole { Sharing::Exclusive } else { self.sharing }
    }

    /// Device memory that a job has on a type: a GPU's, or that of its part; MiB, 0 if unknown.
    pub fn memory_for(&self, gpu_type: TypeId, job: &Job) -> u32 {
        // A part of unknown memory has no more than the GPU.
        let own = job.part.and_then(|part| self.parts.memory_mib(gpu_type, part)).filter(|mib| *mib > 0);
        own.unwrap_or(self.types[gpu_type].memory_mib)
    }
}

impl PartProfile {
    /// The slices at which it may end, itself not included.
    fn ends(&self) -> impl Iterator<Item = u64> {
        self.starts.iter().map(|start| u64::from(*start) + u64::from(self.slices))
    }

    /// Why no GPU can be cut so, if that is so.
    fn wrong(&self) -> Option<String> {
        if self.slices == 0 {
            return Some("it takes no slice".into());
        }
        if self.starts.is_empty() || !self.starts.is_sorted_by(|a, b| a < b) {
            return Some(format!("expected slices to begin at, each once and ascending, found {:?}", self.starts));
        }
        let end = self.ends().max().filter(|end| *end > u64::from(Parts::SLICES));
        end.map(|end| format!("it ends after slice {end}, a GPU has at most {}", Parts::SLICES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Costs;
    use crate::catalogue::catalogue;

    fn fleet(kinds: &[&str]) -> Result<Fleet, FleetError> {
        let groups: Vec<(u32, u32, GpuType)> = kinds.iter().map(|kind| (1, 2, GpuType::new(kind, 1.0))).collect();
        let fleet = Fleet::new(&groups, Costs::default(), None)?;
        let tables: Vec<Vec<PartProfile>> =
            kinds.iter().map(|kind| crate::catalogue::find(kind).unwrap().parts.clone()).collect();
        fleet.cut(&tables)
    }

    #[test]
    fn a_part_of_one_name_may_be_another_one_on_another_type() {
        let fleet = fleet(&["A100-SXM4-40GB", "A100-SXM4-80GB", "H100-SXM5-80GB", "V100-SXM2-16GB"]).unwrap();
        let parts = &fleet.parts;
        let ten: Vec<(u32, Vec<usize>)> = parts
            .named("1g.10gb")
            .map(|part| (parts.slices(part), (0..4).filter(|kind| parts.has(TypeId::at(*kind), part)).collect()))
            .collect();
        assert_eq!(ten, [(2, vec![0]), (1, vec![1, 2])]);
        let memory = |kind| parts.memory_mib(TypeId::at(kind), parts.named("3g.40gb").next().unwrap());
        assert_eq!((memory(0), memory(1), memory(2)), (None, Some(40192), Some(40448)));
        assert_eq!(fleet.sharing, Sharing::Parts);
    }

    #[test]
    fn a_part_of_unknown_memory_has_no_more_than_the_gpu() {
        let kind = GpuType { memory_mib: 1000, ..GpuType::new("g", 1.0) };
        let fleet = |memory_mib: u32| {
            let part = PartProfile { name: "half".into(), slices: 1, memory_mib, starts: vec![0, 1] };
            Fleet::new(&[(1, 1, kind.clone())], Costs::default(), None).and_then(|fleet| fleet.cut(&[vec![part]]))
        };
        let job =
            Job::new("j", crate::Instant::START, 1, crate::SECOND).asking(|asks| asks.part = Some(PartId::new(0)));
        let has = |memory_mib| {
            fleet(memory_mib).map(|fleet| fleet.memory_for(TypeId::new(0), &job)).map_err(|error| error.to_string())
        };
        assert_eq!((has(0), has(400)), (Ok(1000), Ok(400)));
        assert_eq!(has(1001), Err("the part half of g: it has 1001 MiB, the GPU 1000".into()));
    }

    #[test]
    fn what_can_not_be_cut_is_said() {
        assert_eq!(fleet(&["T4", "L4"]), Err(FleetError::NoParts { kinds: vec!["T4".into(), "L4".into()] }));
        let own = |slices: u32, starts: &[u32]| {
            let part = PartProfile { name: "half".into(), slices, memory_mib: 0, starts: starts.to_vec() };
            let fleet = Fleet::new(&[(1, 1, GpuType::new("g", 1.0))], Costs::default(), None).unwrap();
            fleet
                .cut(&[vec![part.clone(), PartProfile { name: "other".into(), ..part }]])
                .map_err(|error| error.to_string())
        };
        assert_eq!(own(2, &[0, 2]).map(|fleet| fleet.parts.share(PartId::new(0))), Ok(500));
        let wrong = |slices, starts: &[u32]| own(slices, starts).unwrap_err();
        assert_eq!(wrong(0, &[0]), "the part half of g: it takes no slice");
        assert!(wrong(1, &[2, 2]).contains("each once and ascending, found [2, 2]"));
        assert!(wrong(1, &[]).contains("found []"));
        assert!(wrong(2, &[63]).ends_with("it ends after slice 65, a GPU has at most 64"));
        assert!(wrong(u32::MAX, &[u32::MAX]).contains("a GPU has at most 64"));
    }

    /// The geometry that `nvidia-smi mig -lgipp` prints is the same for all models but for the names and the memory.
    #[test]
    fn models_that_can_be_cut_are_cut_alike() {
        let cut: Vec<_> = catalogue().models.iter().filter(|model| !model.parts.is_empty()).collect();
        assert_eq!(cut.len(), 7);
        for model in cut {
            let geometry: Vec<(&str, u32, &[u32])> =
                model.parts.iter().map(|part| (&part.name[..2], part.slices, part.starts.as_slice())).collect();
            let expected: [(&str, u32, &[u32]); 6] = [
                ("1g", 1, &[0, 1, 2, 3, 4, 5, 6]),
                ("1g", 2, &[0, 2, 4, 6]),
                ("2g", 2, &[0, 2, 4]),
                ("3g", 4, &[0, 4]),
                ("4g", 4, &[0]),
                ("7g", 8, &[0]),
            ];
            assert_eq!(geometry, expected, "{}", model.name);
            assert!(
                model.parts.iter().all(|part| part.memory_mib <= model.memory() * part.slices / 8),
                "{}",
                model.name
            );
        }
    }
}
