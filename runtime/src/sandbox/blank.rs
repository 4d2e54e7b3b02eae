//! A place in the data of a component that is filled after it was built: a policy's texts, say, beside an interpreter. Components
//! that differ in what fills it alone share their compiled code, which takes seconds where the interpreter is CPython.
//!
//! The place begins with [`MARK`]; [`BYTES`] of length and the bytes themselves follow, and then [`FILLER`] up to [`SIZE`].

use std::ops::Range;

use memchr::memmem;
use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSection as _};
use wasmparser::{DataKind, Operator, Parser, Payload};

/// What a blank begins with.
pub const MARK: &[u8] = b"Sandtable: the texts of a policy follow";
/// Bytes of a blank, all of it.
pub const SIZE: usize = 256 << 10;
/// Every byte of it that is not used.
pub const FILLER: u8 = 0x5a;

/// Bytes of the length, in little-endian order.
const BYTES: usize = size_of::<u32>();

/// Most bytes that fill a blank.
pub const ROOM: usize = SIZE - MARK.len() - BYTES;

/// Section of compiled code that has the data of modules, and nothing that is executed.
const DATA: &str = ".rodata.wasm";

/// The component with this in its blank, whatever was there.
///
/// # Errors
/// It has no blank, or more than one; there is not that much room.
pub fn fill(component: &[u8], content: &[u8]) -> Result<Vec<u8>, String> {
    let blank = Blank::of(component).ok_or("the component has no blank")?;
    let length = u32::try_from(content.len()).ok().filter(|_| content.len() <= ROOM);
    let length = length.ok_or_else(|| format!("{} bytes, and there is room for {ROOM}", content.len()))?;
    let mut filled = blank.emptied(component);
    let blank = &mut filled[blank.0][MARK.len()..];
    blank[..BYTES].copy_from_slice(&length.to_le_bytes());
    blank[BYTES..][..content.len()].copy_from_slice(content);
    Ok(filled)
}

/// Where in a component its blank is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Blank(Range<usize>);

impl Blank {
    /// The blank of a component; none if it has no or several marks, if the mark is of anything but data that a module begins
    /// with, or if other data of the module may be written over it.
    pub(super) fn of(component: &[u8]) -> Option<Blank> {
        let at = once(component, MARK)?;
        let blank = at..at.checked_add(SIZE)?;
        let sections = Parser::new(0).parse_all(component).map_while(Result::ok).filter_map(|payload| match payload {
            Payload::DataSection(section) => section.into_iter().map(|data| Segment::of(&data.ok()?)).collect(),
            _ => None,
        });
        let holds = |one: &Segment| one.bytes.start <= blank.start && blank.end <= one.bytes.end;
        let alone = |all: Vec<Segment>| {
            let own = all.iter().find(|one| holds(one))?;
            let others = all.iter().filter(|one| one.bytes != own.bytes && one.memory == own.memory);
            others.into_iter().all(|other| other.ends() <= own.at || own.ends() <= other.at).then_some(())
        };
        sections.into_iter().find_map(alone).map(|()| Blank(blank))
    }

    /// The component with nothing in its blank.
    pub(super) fn emptied(&self, component: &[u8]) -> Vec<u8> {
        let mut empty = component.to_vec();
        empty[self.0.clone()][MARK.len()..].fill(FILLER);
        empty
    }

    /// Puts what is in this blank of a component into the code of the emptied one, one ELF file. None: the code does not have
    /// the empty blank once in the data of its modules.
    pub(super) fn fill_code(&self, component: &[u8], code: &mut [u8]) -> Option<()> {
        let data = ElfFile64::<'_, object::Endianness>::parse(&*code).ok()?.section_by_name(DATA)?.file_range()?;
        let start = usize::try_from(data.0).ok()?;
        let data = code.get_mut(start..start.checked_add(usize::try_from(data.1).ok()?)?)?;
        let at = once(data, MARK)?;
        let blank = data.get_mut(at..at.checked_add(SIZE)?)?;
        if blank[MARK.len()..].iter().any(|byte| *byte != FILLER) {
            return None;
        }
        blank.copy_from_slice(&component[self.0.clone()]);
        Some(())
    }
}

/// Data that a module begins with: where they are in the file, and where they are written.
struct Segment {
    bytes: Range<usize>,
    memory: u32,
    at: u64,
}

impl Segment {
    /// None: it is not known where they are written.
    fn of(data: &wasmparser::Data<'_>) -> Option<Segment> {
        let DataKind::Active { memory_index: memory, offset_expr } = &data.kind else { return None };
        let mut operators = offset_expr.get_operators_reader();
        let Operator::I32Const { value } = operators.read().ok()? else { return None };
        let ends = matches!(operators.read().ok()?, Operator::End);
        let bytes = data.range.end - data.data.len()..data.range.end;
        ends.then_some(Segment { bytes, memory: *memory, at: u64::from(value.cast_unsigned()) })
    }

    fn ends(&self) -> u64 {
        self.at + self.bytes.len() as u64
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

    fn empty() -> Vec<u8> {
        let mut blank = vec![FILLER; SIZE];
        blank[..MARK.len()].copy_from_slice(MARK);
        blank
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
            let base = component(&[b"before", &empty(), b"after"]);
            let filled = fill(&base, b"def decide(batch): ...").expect("a blank");
            let other = fill(&filled, &[0xff; ROOM]).expect("a blank that is filled already");
            let blank = Blank::of(&base).expect("a blank");
            for component in [&base, &filled, &other] {
                assert_eq!(blank.emptied(component), base);
                let mut code = compiled(&base);
                blank.fill_code(component, &mut code).expect("the blank is in the code");
                assert_eq!(code, compiled(component));
            }
            assert_ne!(compiled(&filled), compiled(&other));
        }
    }

    #[test]
    fn a_mark_is_no_blank_unless_it_is_there_once_in_data_with_all_of_its_room() {
        let empty = empty();
        let cut = &empty[..SIZE - 1];
        let wrong: [&[&[u8]]; 5] = [&[], &[b"nothing"], &[cut], &[&empty, MARK], &[&empty, &empty]];
        for data in wrong {
            assert_eq!(Blank::of(&component(data)), None, "{} data", data.len());
            assert!(fill(&component(data), b"").is_err());
        }
        // A custom section may hold anything: of it nothing is in the code.
        let text = format!("(component (@custom \"notes\" \"{}\"))", escaped(&empty));
        assert_eq!(Blank::of(&wat::parse_str(text).expect("a component")), None);
        assert_eq!(Blank::of(&empty), None, "no component");
    }

    #[test]
    fn what_other_data_may_be_written_over_is_no_blank() {
        let module = |others: &str| {
            let text = format!(
                "(component (core module (memory (export \"m\") 64) (global $g i32 (i32.const 0)) (data (i32.const 8) \"{}\") {others}))",
                escaped(&empty())
            );
            Blank::of(&wat::parse_str(text).expect("a component"))
        };
        assert!(module("(data (i32.const 0) \"01234567\") (data (i32.const 262152) \"after\")").is_some());
        for over in
            ["(data (i32.const 0) \"012345678\")", "(data (i32.const 262151) \"x\")", "(data (global.get $g) \"x\")"]
        {
            assert_eq!(module(over), None, "{over}");
        }
        let passive = format!("(component (core module (memory 64) (data \"{}\")))", escaped(&empty()));
        assert_eq!(Blank::of(&wat::parse_str(passive).expect("a component")), None);
    }

    #[test]
    fn what_is_longer_than_the_blank_is_refused() {
        let base = component(&[&empty()]);
        assert!(fill(&base, &[b'x'; ROOM]).is_ok());
        assert_eq!(fill(&base, &[b'x'; ROOM + 1]), Err(format!("{} bytes, and there is room for {ROOM}", ROOM + 1)));
    }

    #[test]
    fn code_without_the_blank_blank_is_left_alone() {
        let engine = engine(Flags::default()).expect("an engine");
        let filled = fill(&component(&[&empty()]), b"text").expect("a blank");
        let blank = Blank::of(&filled).expect("a blank");
        let other = engine.precompile_component(&component(&[b"other"])).expect("code");
        let own = engine.precompile_component(&filled).expect("code");
        for code in [other, own, b"no ELF".to_vec(), Vec::new()] {
            let mut same = code.clone();
            assert_eq!(blank.fill_code(&filled, &mut same), None);
            assert_eq!(same, code);
        }
    }
}
