//! What a component exports and imports, by name.

use wasmparser::{Parser, Payload};

/// The names of what a component exports, and of what it imports, in its order. Components within it do not count.
///
/// # Errors
/// What is not a component.
pub fn interfaces(bytes: &[u8]) -> Result<(Vec<String>, Vec<String>), String> {
    let wrong = |error: wasmparser::BinaryReaderError| error.message().to_string();
    let (mut exports, mut imports) = (Vec::new(), Vec::new());
    let mut within = 0_u32;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(wrong)? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => within += 1,
            Payload::End(_) => within = within.saturating_sub(1),
            Payload::ComponentImportSection(section) if within == 0 => {
                for import in section {
                    imports.push(import.map_err(wrong)?.name.name.to_string());
                }
            }
            Payload::ComponentExportSection(section) if within == 0 => {
                for export in section {
                    exports.push(export.map_err(wrong)?.name.name.to_string());
                }
            }
            _ => {}
        }
    }
    Ok((exports, imports))
}
