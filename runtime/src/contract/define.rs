//! How a type of the contract is defined: each field and case has its name in `wit/` before it. A component whose types differ is
//! refused when it is loaded.

macro_rules! record {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$about:meta])* $wit:literal $field:ident: $type:ty,)* }) => {
        #[cfg_attr(
            feature = "sandbox",
            derive(wasmtime::component::ComponentType, wasmtime::component::Lift, wasmtime::component::Lower),
            component(record)
        )]
        #[derive(Debug, serde::Serialize, serde::Deserialize)]
        $(#[$meta])*
        pub struct $name {
            $($(#[$about])* #[cfg_attr(feature = "sandbox", component(name = $wit))] pub $field: $type,)*
        }
    };
}

macro_rules! enumeration {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$about:meta])* $wit:literal $case:ident,)* }) => {
        #[cfg_attr(
            feature = "sandbox",
            derive(wasmtime::component::ComponentType, wasmtime::component::Lift, wasmtime::component::Lower),
            component(enum)
        )]
        #[derive(Debug, serde::Serialize, serde::Deserialize)]
        $(#[$meta])*
        #[repr(u8)]
        pub enum $name {
            $($(#[$about])* #[cfg_attr(feature = "sandbox", component(name = $wit))] $case,)*
        }
    };
}

macro_rules! variant {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$about:meta])* $wit:literal $case:ident $(($type:ty))?,)* }) => {
        #[cfg_attr(
            feature = "sandbox",
            derive(wasmtime::component::ComponentType, wasmtime::component::Lift, wasmtime::component::Lower),
            component(variant)
        )]
        #[derive(Debug, serde::Serialize, serde::Deserialize)]
        $(#[$meta])*
        pub enum $name {
            $($(#[$about])* #[cfg_attr(feature = "sandbox", component(name = $wit))] $case $(($type))?,)*
        }
    };
}

/// Flags of the contract; JSON has them as a list of their names.
macro_rules! flags {
    ($(#[$meta:meta])* $name:ident { $($wit:literal $flag:ident = $bit:literal,)* }) => {
        #[cfg(feature = "sandbox")]
        wasmtime::component::flags! {
            $name { $(#[component(name = $wit)] const $flag;)* }
        }
        #[cfg(not(feature = "sandbox"))]
        bitflags::bitflags! {
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub struct $name: u16 { $(const $flag = $bit;)* }
        }
        impl $name {
            /// Each flag with its name in the contract.
            pub const NAMES: &'static [(&'static str, Self)] = &[$(($wit, Self::$flag)),*];
        }
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_seq(Self::NAMES.iter().filter(|(_, flag)| self.contains(*flag)).map(|(name, _)| name))
            }
        }
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let names = Vec::<String>::deserialize(deserializer)?;
                let mut flags = Self::empty();
                for name in names {
                    match name.as_str() {
                        $($wit => flags |= Self::$flag,)*
                        other => return Err(serde::de::Error::unknown_variant(other, &[$($wit),*])),
                    }
                }
                Ok(flags)
            }
        }
    };
}
