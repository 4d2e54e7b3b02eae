//! Writes the catalogue of models from the zoo's graphs (`just models`).

#![expect(clippy::print_stdout, reason = "a generator's result")]

fn main() -> Result<(), Box<dyn std::error::Error>> {
    print!("{}", sandtable::facts::render(&sandtable::facts::from_zoo()?)?);
    Ok(())
}
