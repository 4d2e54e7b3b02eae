//! What is refused before anything of it is compiled: files whose shape alone makes validating or compiling them cost
//! minutes, gigabytes or the stack. Each bound is several times what the largest guest tried needs, which is CPython:
//! 13,501 functions, one of 427 kB, 67,750 locals × blocks of one function, 15,805 targets.

use std::fmt::Display;

use wasmparser::{FunctionBody, Operator, Parser, Payload};

use crate::fault::LoadFault;
use crate::limits::Limits;

/// Most functions of a component, all modules together.
const FUNCTIONS: u64 = 100_000;
/// Most bytes of the code of one function.
const BODY: usize = 2 << 20;
/// Most locals of one function times its blocks, loops and ifs: the code generator's time and memory grow with it.
const LOCALS_BY_BLOCKS: u64 = 500_000;
/// Most targets of all `br_table`s together.
const TARGETS: u64 = 500_000;
/// Most types of components and instances inside of other types; the validator recurses into them.
const TYPES_IN_TYPES: usize = 500;

/// Refuses what is too much; what is malformed is left to the validator, which says where.
pub(super) fn check(bytes: &[u8]) -> Result<(), LoadFault> {
    let (mut depth, mut functions, mut targets, mut types) = (0, 0, 0, 0);
    for payload in Parser::new(0).parse_all(bytes) {
        match payload {
            Ok(Payload::Version { .. }) => {
                depth += 1;
                at_most(depth, Limits::NESTING, || "components and modules in each other")?;
            }
            Ok(Payload::End(_)) => depth -= 1,
            Ok(Payload::ComponentTypeSection(section)) => {
                types += types_in_types(&bytes[section.range()]);
                at_most(types, TYPES_IN_TYPES, || "types of components and instances inside of types")?;
            }
            Ok(Payload::CodeSectionEntry(body)) => {
                functions += 1;
                at_most(functions, FUNCTIONS, || "functions")?;
                targets += function(&body, functions)?;
                at_most(targets, TARGETS, || "targets of br_table")?;
            }
            Ok(_) => {}
            Err(_) => return Ok(()),
        }
    }
    Ok(())
}

/// Checks a function; returns how many targets its `br_table`s have.
fn function(body: &FunctionBody<'_>, number: u64) -> Result<u64, LoadFault> {
    at_most(body.range().len(), BODY, || format!("bytes of code in function {number}"))?;
    let (mut blocks, mut targets) = (1, 0);
    let (Ok(locals), Ok(operators)) = (body.get_locals_reader(), body.get_operators_reader()) else { return Ok(0) };
    let locals: u64 = locals.into_iter().map_while(Result::ok).map(|(count, _)| u64::from(count)).sum();
    for operator in operators.into_iter().map_while(Result::ok) {
        match operator {
            Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } => blocks += 1,
            Operator::BrTable { targets: table } => targets += u64::from(table.len()),
            _ => {}
        }
    }
    at_most(locals.saturating_mul(blocks), LOCALS_BY_BLOCKS, || format!("locals × blocks in function {number}"))?;
    Ok(targets)
}

/// At least as many as there are: each type inside of another is the declarator `type`, 1, and a component's or an
/// instance's type, 0x41 or 0x42. Looked for as bytes, since reading them as types is what recurses.
fn types_in_types(section: &[u8]) -> usize {
    section.windows(2).filter(|pair| matches!(pair, [1, 0x41 | 0x42])).count()
}

fn at_most<N: PartialOrd + Display, T: Display>(found: N, most: N, what: impl Fn() -> T) -> Result<(), LoadFault> {
    if found <= most {
        return Ok(());
    }
    Err(LoadFault::Invalid(format!("{found} or more {}, at most {most} are compiled", what())))
}
