//! A place in the data of a component that is filled after it was built: a policy's texts, say, beside an interpreter. Components
//! that differ in what fills it alone share their compiled code, which takes seconds where the interpreter is CPython.
//!
//! The place begins with [`MARK`]; [`BYTES`] of length and the bytes themselves follow, and then [`BLANK`] up to [`SIZE`].

use std::ops::Range;

use memchr::memmem;
use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSection as _};
use wasmparser::{Parser, Payload};

/// What a slot begins with.
pub const MARK: &[u8] = b"Sandtable: the texts of a policy follow";
/// Bytes of a slot, all of it.
pub const SIZE: usize = 256 << 10;
/// Every byte of it that is not used.
pub const BLANK: u8 = 0x5a;

/// Bytes of the length, in little-endian order.
const BYTES: usize = size_of::<u32>();

/// Most bytes that fill a slot.
pub const ROOM: usize = SIZE - MARK.len() - BYTES;

/// Section of compiled code that has the data of modules, and nothing that is executed.
const DATA: &str = ".rodata.wasm";

/// The component with this in its slot, whatever was there.
///
/// # Errors
/// It has no slot, or more than one; there is not that much room.
pub fn fill(component: &[u8], content: &[u8]) -> Result<Vec<u8>, String> {
    let slot = Slot::of(component).ok_or("the component has no slot")?;
    let length = u32::try_from(content.len()).ok().filter(|_| content.len() <= ROOM);
    let length = length.ok_or_else(|| format!("{} bytes, and there is room for {ROOM}", content.len()))?;
    let mut filled = slot.blanked(component);
    let slot = &mut filled[slot.0][MARK.len()..];
    slot[..BYTES].copy_from_slice(&length.to_le_bytes());
    slot[BYTES..][..content.len()].copy_from_slice(content);
    Ok(filled)
}

/// Where in a component its slot is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Slot(Range<usize>);

impl Slot {
    /// The slot of a component; none if it has no or several marks, or if the mark is of anything but data of a module.
    pub(super) fn of(component: &[u8]) -> Option<Slot> {
        let at = once(component, MARK)?;
        let slot = at..at.checked_add(SIZE)?;
        let holds = |data: wasmparser::Result<wasmparser::Data<'_>>| {
            let data = data.ok()?;
            let bytes = data.range.end - data.data.len()..data.range.end;
            (bytes.start <= slot.start && slot.end <= bytes.end).then_some(())
        };
        let within = Parser::new(0).parse_all(component).map_while(Result::ok).any(|payload| match payload {
            Payload::DataSection(section) => section.into_iter().any(|data| holds(data).is_some()),
            _ => false,
        });
        within.then_some(Slot(slot))
    }

    /// The component with nothing in its slot.
    pub(super) fn blanked(&self, component: &[u8]) -> Vec<u8> {
        let mut blank = component.to_vec();
        blank[self.0.clone()][MARK.len()..].fill(BLANK);
        blank
    }

    /// Puts what is in this slot of a component into the code of the blanked one, one ELF file. None: the code does not have
    /// the blank slot once in the data of its modules.
    pub(super) fn fill_code(&self, component: &[u8], code: &mut [u8]) -> Option<()> {
        let data = ElfFile64::<'_, object::Endianness>::parse(&*code).ok()?.section_by_name(DATA)?.file_range()?;
        let start = usize::try_from(data.0).ok()?;
        let data = code.get_mut(start..start.checked_add(usize::try_from(data.1).ok()?)?)?;
        let at = once(data, MARK)?;
        let slot = data.get_mut(at..at.checked_add(SIZE)?)?;
        if slot[MARK.len()..].iter().any(|byte| *byte != BLANK) {
            return None;
        }
        slot.copy_from_slice(&component[self.0.clone()]);
        Some(())
    }
}

/// Where a text is, if it is there once.
fn once(bytes: &[u8], text: &[u8]) -> Option<usize> {
    let mut found = memmem::find_iter(bytes, text);
    let at = found.next()?;
    found.next().is_none().then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::super::engine::{Flags, engine};

    fn escaped(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("\\{byte:02x}")).collect()
    }

    fn blank() -> Vec<u8> {
        let mut slot = vec![BLANK; SIZE];
        slot[..MARK.len()].copy_from_slice(MARK);
        slot
    }

    /// A component of one module whose memory begins with these data, 300,000 bytes apart.
    fn component(data: &[&[u8]]) -> Vec<u8> {
        let mut text = String::from("(component (core module (memory (export \"m\") 64)");
        for (at, bytes) in data.iter().enumerate() {
            text += &format!(" (data (i32.const {}) \"{}\")", 8 + at * 300_000, escaped(bytes));
        }
        text += " (func (export \"f\") (result i32) i32.const 7)) (core instance (instantiate 0)))";
        wat::parse_str(text).expect("a component")
    }

    #[test]
    fn the_code_of_a_filled_component_is_what_compiling_it_gives() {
        for variation in [false, true] {
            let flags = Flags { interruptible: variation, ..Flags::default() };
            let engine = engine(flags).expect("an engine");
            let compiled = |component: &[u8]| engine.precompile_component(component).expect("code");
            let base = component(&[b"before", &blank(), b"after"]);
            let filled = fill(&base, b"def decide(batch): ...").expect("a slot");
            let other = fill(&filled, &[0xff; ROOM]).expect("a slot that is filled already");
            let slot = Slot::of(&base).expect("a slot");
            for component in [&base, &filled, &other] {
                assert_eq!(slot.blanked(component), base);
                let mut code = compiled(&base);
                slot.fill_code(component, &mut code).expect("the slot is in the code");
                assert_eq!(code, compiled(component));
            }
            assert_ne!(compiled(&filled), compiled(&other));
        }
    }

    #[test]
    fn a_mark_is_no_slot_unless_it_is_there_once_in_data_with_all_of_its_room() {
        let blank = blank();
        let cut = &blank[..SIZE - 1];
        let wrong: [&[&[u8]]; 5] = [&[], &[b"nothing"], &[cut], &[&blank, MARK], &[&blank, &blank]];
        for data in wrong {
            assert_eq!(Slot::of(&component(data)), None, "{} data", data.len());
            assert!(fill(&component(data), b"").is_err());
        }
        // A custom section may hold anything: of it nothing is in the code.
        let text = format!("(component (@custom \"notes\" \"{}\"))", escaped(&blank));
        assert_eq!(Slot::of(&wat::parse_str(text).expect("a component")), None);
        assert_eq!(Slot::of(&blank), None, "no component");
    }

    #[test]
    fn what_is_longer_than_the_slot_is_refused() {
        let base = component(&[&blank()]);
        assert!(fill(&base, &[b'x'; ROOM]).is_ok());
        assert_eq!(fill(&base, &[b'x'; ROOM + 1]), Err(format!("{} bytes, and there is room for {ROOM}", ROOM + 1)));
    }

    #[test]
    fn code_without_the_blank_slot_is_left_alone() {
        let engine = engine(Flags::default()).expect("an engine");
        let filled = fill(&component(&[&blank()]), b"text").expect("a slot");
        let slot = Slot::of(&filled).expect("a slot");
        let other = engine.precompile_component(&component(&[b"other"])).expect("code");
        let own = engine.precompile_component(&filled).expect("code");
        for code in [other, own, b"no ELF".to_vec(), Vec::new()] {
            let mut same = code.clone();
            assert_eq!(slot.fill_code(&filled, &mut same), None);
            assert_eq!(same, code);
        }
    }
}
