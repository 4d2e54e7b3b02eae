//! Values of the contract in the linear memory of a guest, as the canonical ABI of the component model lays them out.
//!
//! The checks and their messages are those of wasmtime's component layer, so that a guest fails in the same way on both. Two things differ, which
//! only a guest with an allocator of its own making can tell: for an empty list or text the allocator is not called, and the elements of a
//! list are written after what they point to, and not before.

use wasmtime::bail;

/// The linear memory of a guest, as its component offers it for the values of a function.
pub(crate) trait GuestMemory {
    /// Calls the guest's allocator; returns the address, which is in range and aligned.
    fn allocate(&mut self, align: usize, size: usize) -> wasmtime::Result<usize>;

    /// Writes to where the allocator has made room.
    fn write(&mut self, address: usize, bytes: &[u8]) -> wasmtime::Result<()>;
}

/// A type of the contract: how many bytes it takes, and how it is written and read.
pub(crate) trait Value: Sized {
    const SIZE: usize;
    const ALIGN: usize;

    /// Writes it at an offset of the block that is being laid out.
    fn store(&self, to: &mut Lowering<'_>, at: usize) -> wasmtime::Result<()>;

    /// Reads it from its `SIZE` bytes.
    fn load(bytes: &[u8], from: &mut Lifting<'_>) -> wasmtime::Result<Self>;
}

/// `offset`, or the next multiple of `align` above it.
pub(crate) const fn aligned(offset: usize, align: usize) -> usize {
    offset.next_multiple_of(align)
}

/// The larger of two.
pub(crate) const fn larger(first: usize, second: usize) -> usize {
    if first > second { first } else { second }
}

/// Writing values into a guest. A list is laid out in the host's own memory and copied in one piece.
pub(crate) struct Lowering<'a> {
    memory: &'a mut dyn GuestMemory,
    /// Blocks that are being laid out, the innermost last.
    blocks: Vec<u8>,
}

impl<'a> Lowering<'a> {
    /// `blocks` is room to lay values out in, empty.
    pub(crate) fn new(memory: &'a mut dyn GuestMemory, blocks: Vec<u8>) -> Lowering<'a> {
        Lowering { memory, blocks }
    }

    /// Returns the room, for the next value.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.blocks.clear();
        self.blocks
    }

    /// Writes the elements of a list into memory of the guest; returns where they are, and how many.
    pub(crate) fn list<T: Value>(&mut self, list: &[T]) -> wasmtime::Result<(u32, u32)> {
        let Some(size) = list.len().checked_mul(T::SIZE) else { bail!("size overflow copying a list") };
        // No call into the guest where there is nothing to write.
        if size == 0 {
            return Ok((T::ALIGN as u32, list.len() as u32));
        }
        let address = self.memory.allocate(T::ALIGN, size)?;
        let block = self.blocks.len();
        self.blocks.resize(block + size, 0);
        for (index, value) in list.iter().enumerate() {
            value.store(self, block + index * T::SIZE)?;
        }
        self.memory.write(address, &self.blocks[block..])?;
        self.blocks.truncate(block);
        Ok((address as u32, list.len() as u32))
    }

    /// Writes a text into memory of the guest; returns where it is, and its length in bytes.
    pub(crate) fn text(&mut self, text: &str) -> wasmtime::Result<(u32, u32)> {
        if text.len() > i32::MAX as usize {
            bail!("string length of {} too large to copy into wasm", text.len());
        }
        if text.is_empty() {
            return Ok((1, 0));
        }
        let address = self.memory.allocate(1, text.len())?;
        self.memory.write(address, text.as_bytes())?;
        Ok((address as u32, text.len() as u32))
    }

    /// Writes bytes at an offset of the block that is being laid out.
    #[inline]
    pub(crate) fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        self.blocks[at..at + N].copy_from_slice(&bytes);
    }

    fn pair(&mut self, at: usize, (address, length): (u32, u32)) {
        self.put(at, address.to_le_bytes());
        self.put(at + 4, length.to_le_bytes());
    }
}

/// Reading values of a guest.
pub(crate) struct Lifting<'a> {
    memory: &'a [u8],
    /// Bytes that may still be copied.
    room: usize,
}

/// More data than a guest may hand over at once.
#[derive(Debug, thiserror::Error)]
#[error("too much data is being copied between the host and the guest")]
pub(crate) struct TooMuchData;

impl<'a> Lifting<'a> {
    pub(crate) fn new(memory: &'a [u8], room: usize) -> Lifting<'a> {
        Lifting { memory, room }
    }

    fn pay(&mut self, length: usize, size: usize) -> wasmtime::Result<()> {
        match length.checked_mul(size).and_then(|bytes| self.room.checked_sub(bytes)) {
            Some(left) => self.room = left,
            None => return Err(TooMuchData.into()),
        }
        Ok(())
    }

    fn range(&self, address: u32, length: u32, size: usize) -> Option<&'a [u8]> {
        let address = address as usize;
        let bytes = (length as usize).checked_mul(size)?;
        self.memory.get(address..address.checked_add(bytes)?)
    }

    /// Reads a list.
    pub(crate) fn list<T: Value>(&mut self, address: u32, length: u32) -> wasmtime::Result<Vec<T>> {
        let Some(bytes) = self.range(address, length, T::SIZE) else {
            bail!("list pointer/length out of bounds of memory")
        };
        self.pay(length as usize, size_of::<T>())?;
        if !(address as usize).is_multiple_of(T::ALIGN) {
            bail!("list pointer is not aligned")
        }
        let mut list = Vec::with_capacity(length as usize);
        for bytes in bytes.chunks_exact(T::SIZE) {
            list.push(T::load(bytes, self)?);
        }
        Ok(list)
    }

    /// Reads a text.
    pub(crate) fn text(&mut self, address: u32, length: u32) -> wasmtime::Result<String> {
        let Some(bytes) = self.range(address, length, 1) else {
            bail!("string pointer/length out of bounds of memory")
        };
        self.pay(length as usize, 1)?;
        Ok(str::from_utf8(bytes)?.into())
    }

    /// Reads what a function answered with, at the address that it returned.
    pub(crate) fn answer<T: Value>(&mut self, address: u32) -> wasmtime::Result<T> {
        if !(address as usize).is_multiple_of(T::ALIGN) {
            bail!("return pointer not aligned");
        }
        let Some(bytes) = self.range(address, 1, T::SIZE) else { bail!("pointer out of bounds of memory") };
        T::load(bytes, self)
    }
}

/// The `N` bytes at an offset.
fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    match bytes[at..].first_chunk() {
        Some(chunk) => *chunk,
        None => unreachable!("a value is read from as many bytes as it takes"),
    }
}

fn pair_at(bytes: &[u8]) -> (u32, u32) {
    (u32::from_le_bytes(bytes_at(bytes, 0)), u32::from_le_bytes(bytes_at(bytes, 4)))
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl Value for $number {
            const SIZE: usize = size_of::<$number>();
            const ALIGN: usize = size_of::<$number>();

            #[inline]
            fn store(&self, to: &mut Lowering<'_>, at: usize) -> wasmtime::Result<()> {
                to.put(at, self.to_le_bytes());
                Ok(())
            }

            #[inline]
            fn load(bytes: &[u8], _: &mut Lifting<'_>) -> wasmtime::Result<Self> {
                Ok(<$number>::from_le_bytes(bytes_at(bytes, 0)))
            }
        }
    )*};
}

numbers! { u8 u16 u32 u64 i32 f64 }

impl Value for () {
    const SIZE: usize = 0;
    const ALIGN: usize = 1;

    fn store(&self, _: &mut Lowering<'_>, _: usize) -> wasmtime::Result<()> {
        Ok(())
    }

    fn load(_: &[u8], _: &mut Lifting<'_>) -> wasmtime::Result<Self> {
        Ok(())
    }
}

impl Value for bool {
    const SIZE: usize = 1;
    const ALIGN: usize = 1;

    fn store(&self, to: &mut Lowering<'_>, at: usize) -> wasmtime::Result<()> {
        u8::from(*self).store(to, at)
    }

    fn load(bytes: &[u8], from: &mut Lifting<'_>) -> wasmtime::Result<Self> {
        Ok(u8::load(bytes, from)? != 0)
    }
}

impl Value for String {
    const SIZE: usize = 8;
    const ALIGN: usize = 4;

    fn store(&self, to: &mut Lowering<'_>, at: usize) -> wasmtime::Result<()> {
        let text = to.text(self)?;
        to.pair(at, text);
        Ok(())
    }

    fn load(bytes: &[u8], from: &mut Lifting<'_>) -> wasmtime::Result<Self> {
        let (address, length) = pair_at(bytes);
        from.text(address, length)
    }
}

impl<T: Value> Value for Vec<T> {
    const SIZE: usize = 8;
    const ALIGN: usize = 4;

    fn store(&self, to: &mut Lowering<'_>, at: usize) -> wasmtime::Result<()> {
        let list = to.list(self)?;
        to.pair(at, list);
        Ok(())
    }

    fn load(bytes: &[u8], from: &mut Lifting<'_>) -> wasmtime::Result<Self> {
        let (address, length) = pair_at(bytes);
        from.list(address, length)
    }
}

impl<T: Value> Value for Option<T> {
    const SIZE: usize = aligned(aligned(1, T::ALIGN) + T::SIZE, T::ALIGN);
    const ALIGN: usize = T::ALIGN;

    fn store(&self, to: &mut Lowering<'_>, at: usize) -> wasmtime::Result<()> {
        match self {
            None => 0u8.store(to, at),
            Some(value) => {
                1u8.store(to, at)?;
                value.store(to, at + aligned(1, T::ALIGN))
            }
        }
    }

    fn load(bytes: &[u8], from: &mut Lifting<'_>) -> wasmtime::Result<Self> {
        match bytes[0] {
            0 => Ok(None),
            1 => T::load(&bytes[aligned(1, T::ALIGN)..], from).map(Some),
            _ => bail!("invalid option discriminant"),
        }
    }
}

impl<T: Value, E: Value> Value for Result<T, E> {
    const SIZE: usize = aligned(aligned(1, Self::ALIGN) + larger(T::SIZE, E::SIZE), Self::ALIGN);
    const ALIGN: usize = larger(T::ALIGN, E::ALIGN);

    fn store(&self, to: &mut Lowering<'_>, at: usize) -> wasmtime::Result<()> {
        u8::from(self.is_err()).store(to, at)?;
        let payload = at + aligned(1, Self::ALIGN);
        match self {
            Ok(value) => value.store(to, payload),
            Err(error) => error.store(to, payload),
        }
    }

    fn load(bytes: &[u8], from: &mut Lifting<'_>) -> wasmtime::Result<Self> {
        let payload = &bytes[aligned(1, Self::ALIGN)..];
        match bytes[0] {
            0 => T::load(payload, from).map(Ok),
            1 => E::load(payload, from).map(Err),
            _ => bail!("invalid expected discriminant"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use wit_parser::{Resolve, SizeAlign, Type, TypeDefKind, TypeOwner};

    use super::super::*;
    use super::Value;

    macro_rules! layouts {
        ($($name:literal $type:ty,)*) => {
            fn found() -> BTreeMap<String, (usize, usize)> {
                BTreeMap::from([$(($name.into(), (<$type>::SIZE, <$type>::ALIGN)),)*])
            }
        };
    }

    layouts! {
        "provider.descriptor" ProviderDescriptor,
        "provider.quantities" Quantities,
        "provider.solo-quantity" SoloQuantity,
        "provider.sources" Sources,
        "types.abilities" Abilities,
        "types.action" Action,
        "types.arrival" Arrival,
        "types.attained-time" AttainedTime,
        "types.batch" Batch,
        "types.batch-split" BatchSplit,
        "types.cadence" Cadence,
        "types.change-cause" ChangeCause,
        "types.communication" Communication,
        "types.demand" Demand,
        "types.descriptor" Descriptor,
        "types.elasticity" Elasticity,
        "types.epochs-of-batch" EpochsOfBatch,
        "types.event" Event,
        "types.fresh" Fresh,
        "types.gpu-type" GpuType,
        "types.host-resources" HostResources,
        "types.job-end" JobEnd,
        "types.job-phase" JobPhase,
        "types.knowledge" Knowledge,
        "types.model-facts" ModelFacts,
        "types.nearness" Nearness,
        "types.node" Node,
        "types.lease-end" LeaseEnd,
        "types.node-change" NodeChange,
        "types.node-health" NodeHealth,
        "types.part-profile" PartProfile,
        "types.phase-change" PhaseChange,
        "types.plan" Plan,
        "types.policy-error" PolicyError,
        "types.pool" Pool,
        "types.preempt" Preempt,
        "types.preempt-mode" PreemptMode,
        "types.protect" Protect,
        "types.readiness" Readiness,
        "types.reason" Reason,
        "types.reject-code" RejectCode,
        "types.rejection" Rejection,
        "types.remaining-change" RemainingChange,
        "types.sample" Sample,
        "types.service" Service,
        "types.queue" Queue,
        "types.set-batch" SetBatch,
        "types.setup" Setup,
        "types.sharing" Sharing,
        "types.start" Start,
        "types.start-on" StartOn,
        "types.start-part" StartPart,
        "types.throttle" Throttle,
        "types.throughput" Throughput,
        "types.stages" Stages,
        "types.timer" Timer,
        "types.topology" Topology,
        "types.training-epochs" TrainingEpochs,
        "types.trigger" Trigger,
        "types.wake" Wake,
        "types.workload-profile" WorkloadProfile,
    }

    /// Size and alignment of every type, by the contract; the order of fields and cases is held by wasmtime when it loads a component.
    #[test]
    fn layouts_are_those_of_the_contract() {
        let mut resolve = Resolve::default();
        resolve.push_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../wit")).expect("the contract");
        let mut sizes = SizeAlign::default();
        sizes.fill(&resolve);
        let mut expected = BTreeMap::new();
        for (id, of_type) in &resolve.types {
            let owner = match of_type.owner {
                TypeOwner::Interface(interface) => resolve.interfaces[interface].name.as_deref(),
                _ => None,
            };
            let (Some(interface), Some(name)) = (owner, of_type.name.as_deref()) else { continue };
            // Another name of a type that is here under its own.
            if let TypeDefKind::Type(_) = of_type.kind {
                continue;
            }
            let id = Type::Id(id);
            let layout = (sizes.size(&id).size_wasm32(), sizes.align(&id).align_wasm32());
            assert!(expected.insert(format!("{interface}.{name}"), layout).is_none(), "{name} twice");
        }
        // They cross piece by piece, as parameters.
        for name in ["log.level", "predictor.quantity", "predictor.shapes", "provider.setup"] {
            assert!(expected.remove(name).is_some(), "{name}");
        }
        assert_eq!(found(), expected);
    }
}
