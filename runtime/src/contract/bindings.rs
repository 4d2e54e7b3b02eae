//! Generated from `wit/`. Imports are defined by hand in `imports`, since each one charges fuel.

#![allow(missing_docs, unreachable_pub, clippy::all)]

wasmtime::component::bindgen!({
    world: "policy",
    path: "../wit",
    additional_derives: [PartialEq, serde::Serialize, serde::Deserialize],
});

/// The other world: predictors. Its types are the policies' own.
pub mod predictor {
    wasmtime::component::bindgen!({
        world: "predictor-component",
        path: "../wit",
        with: {
            "sandtable:policy/types": super::sandtable::policy::types,
            "sandtable:policy/log": super::sandtable::policy::log,
        },
    });
}

use sandtable::policy::types::{Abilities, Knowledge};

impl sandtable::policy::types::Descriptor {
    /// What a policy that is compiled into the host says of itself where nobody asks for more: version 0, without
    /// configuration.
    pub fn stand_in(name: &str, uses: Abilities) -> Self {
        let (version, about, needs) = ("0".into(), String::new(), Knowledge::empty());
        Self { name: name.into(), version, about, uses, needs, config_schema: "{}".into() }
    }
}

/// Flags as a list of names; the macro derives nothing for them.
macro_rules! flags_as_names {
    ($flags:ident { $($name:literal => $flag:ident),* }) => {
        impl serde::Serialize for sandtable::policy::types::$flags {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let names = [$(($name, Self::$flag)),*];
                serializer.collect_seq(names.iter().filter(|(_, flag)| self.contains(*flag)).map(|(name, _)| name))
            }
        }
        impl<'de> serde::Deserialize<'de> for sandtable::policy::types::$flags {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let names = Vec::<String>::deserialize(deserializer)?;
                let mut flags = Self::empty();
                for name in names {
                    match name.as_str() {
                        $($name => flags |= Self::$flag,)*
                        other => return Err(serde::de::Error::unknown_variant(other, &[$($name),*])),
                    }
                }
                Ok(flags)
            }
        }
    };
}
flags_as_names!(Abilities {
    "preempt" => PREEMPT, "timers" => TIMERS, "share" => SHARE, "throttle" => THROTTLE, "elastic" => ELASTIC,
    "protect" => PROTECT
});
flags_as_names!(Knowledge {
    "declared-run-time" => DECLARED_RUN_TIME, "remaining" => REMAINING, "solo-profile" => SOLO_PROFILE,
    "model-facts" => MODEL_FACTS, "references" => REFERENCES, "similarity" => SIMILARITY, "pair-speed" => PAIR_SPEED,
    "throughput" => THROUGHPUT, "utilisation" => UTILISATION, "memory" => MEMORY,
    "steps" => STEPS
});

#[cfg(test)]
mod tests {
    use super::sandtable::policy::types::{Abilities, Knowledge};

    /// A capsule would replay a policy that was told less than the one that failed.
    #[test]
    fn every_flag_is_told_by_its_name() {
        fn again<T: serde::Serialize + serde::de::DeserializeOwned>(flags: &T) -> T {
            serde_json::from_str(&serde_json::to_string(flags).expect("JSON")).expect("flags")
        }
        assert_eq!(again(&Abilities::all()), Abilities::all());
        assert_eq!(again(&Knowledge::all()), Knowledge::all());
    }
}
