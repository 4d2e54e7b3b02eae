//! How a type of the contract is defined: each field and case has its name in `wit/` before it. A component whose types differ is
//! refused when it is loaded. A type crosses the border by wasmtime's own derives, and by [`crate::contract::abi`] where a
//! component's core module is called without them; a test holds the second layout against that of the contract.

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

        #[cfg(feature = "sandbox")]
        const _: () = {
            use crate::contract::abi::{Lifting, Lowering, Value, aligned, larger};

            impl Value for $name {
                const SIZE: usize = {
                    let end = 0;
                    $(let end = aligned(end, <$type>::ALIGN) + <$type>::SIZE;)*
                    aligned(end, Self::ALIGN)
                };
                const ALIGN: usize = {
                    let most = 1;
                    $(let most = larger(most, <$type>::ALIGN);)*
                    most
                };

                fn store(&self, to: &mut Lowering<'_>, at: usize) -> wasmtime::Result<()> {
                    let end = at;
                    $(
                        let start = aligned(end, <$type>::ALIGN);
                        self.$field.store(to, start)?;
                        let end = start + <$type>::SIZE;
                    )*
                    let _ = end;
                    Ok(())
                }

                fn load(bytes: &[u8], from: &mut Lifting<'_>) -> wasmtime::Result<Self> {
                    let end = 0;
                    $(
                        let start = aligned(end, <$type>::ALIGN);
                        let end = start + <$type>::SIZE;
                        let $field = <$type>::load(&bytes[start..end], from)?;
                    )*
                    let _ = end;
                    Ok(Self { $($field,)* })
                }
            }
        };
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

        #[cfg(feature = "sandbox")]
        const _: () = {
            use crate::contract::abi::{Lifting, Lowering, Value};

            impl Value for $name {
                const SIZE: usize = 1;
                const ALIGN: usize = 1;

                fn store(&self, to: &mut Lowering<'_>, at: usize) -> wasmtime::Result<()> {
                    (*self as u8).store(to, at)
                }

                fn load(bytes: &[u8], from: &mut Lifting<'_>) -> wasmtime::Result<Self> {
                    match u8::load(bytes, from)? {
                        $(tag if tag == Self::$case as u8 => Ok(Self::$case),)*
                        tag => wasmtime::bail!("unexpected discriminant: {tag}"),
                    }
                }
            }
        };
    };
}

/// The name, where a case has a payload of this type.
#[cfg(feature = "sandbox")]
macro_rules! payload {
    ($name:ident $type:ty) => {
        $name
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

        #[cfg(feature = "sandbox")]
        const _: () = {
            use crate::contract::abi::{Lifting, Lowering, Value, aligned, larger};

            enum Tag {
                $($case,)*
            }

            impl Value for $name {
                const SIZE: usize = {
                    let most = 0;
                    $($(let most = larger(most, <$type>::SIZE);)?)*
                    aligned(aligned(1, Self::ALIGN) + most, Self::ALIGN)
                };
                const ALIGN: usize = {
                    let most = 1;
                    $($(let most = larger(most, <$type>::ALIGN);)?)*
                    most
                };

                fn store(&self, to: &mut Lowering<'_>, at: usize) -> wasmtime::Result<()> {
                    match self {
                        $(Self::$case $((payload!(value $type)))? => {
                            (Tag::$case as u8).store(to, at)?;
                            $(<$type>::store(value, to, at + aligned(1, Self::ALIGN))?;)?
                        })*
                    }
                    Ok(())
                }

                fn load(bytes: &[u8], from: &mut Lifting<'_>) -> wasmtime::Result<Self> {
                    let payload = &bytes[aligned(1, Self::ALIGN)..];
                    match u8::load(bytes, from)? {
                        $(tag if tag == Tag::$case as u8 => {
                            Ok(Self::$case $((<$type>::load(&payload[..<$type>::SIZE], from)?))?)
                        })*
                        tag => wasmtime::bail!("unexpected discriminant: {tag}"),
                    }
                }
            }
        };
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

        #[cfg(feature = "sandbox")]
        impl $name {
            /// One bit a flag, the first of the contract lowest.
            pub(crate) fn bits(self) -> u16 {
                let set = Self::NAMES.iter().enumerate().filter(|(_, (_, flag))| self.contains(*flag));
                set.fold(0, |bits, (index, _)| bits | 1 << index)
            }
        }

        #[cfg(feature = "sandbox")]
        const _: () = {
            use crate::contract::abi::{Lifting, Lowering, Value};

            impl Value for $name {
                const SIZE: usize = if Self::NAMES.len() > 8 { 2 } else { 1 };
                const ALIGN: usize = Self::SIZE;

                fn store(&self, to: &mut Lowering<'_>, at: usize) -> wasmtime::Result<()> {
                    let [low, high] = self.bits().to_le_bytes();
                    low.store(to, at)?;
                    if Self::SIZE > 1 { high.store(to, at + 1) } else { Ok(()) }
                }

                fn load(bytes: &[u8], _: &mut Lifting<'_>) -> wasmtime::Result<Self> {
                    // A bit without a flag says nothing.
                    let set = Self::NAMES.iter().enumerate().filter(|(index, _)| bytes[index / 8] >> (index % 8) & 1 == 1);
                    Ok(set.fold(Self::empty(), |all, (_, (_, flag))| all | *flag))
                }
            }
        };
    };
}
