//! Results as columns: for CSV, JSON Lines and Parquet alike.

use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::metric;
use crate::plan::Plan;
use crate::results;
use crate::store::Store;
use crate::trace::csv_cell;

/// What a row is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Rows {
    /// A cell: its metrics.
    #[default]
    Cells,
    /// A job of a cell.
    Jobs,
    /// A stay of a job on GPUs.
    Stays,
}

/// Values of one kind, a row each.
pub enum Column {
    /// Words.
    Text(Vec<String>),
    /// Numbers; none where nothing is known.
    Number(Vec<Option<f64>>),
    /// Counts.
    Count(Vec<u64>),
}

/// A table by columns.
pub struct Frame {
    /// Names and values, all of one length.
    pub columns: Vec<(&'static str, Column)>,
}

impl Frame {
    fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| match column {
            Column::Text(all) => all.len(),
            Column::Number(all) => all.len(),
            Column::Count(all) => all.len(),
        })
    }

    /// With a header.
    pub fn csv(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|(name, _)| *name).collect();
        let mut out = names.join(",") + "\n";
        for row in 0..self.rows() {
            let cells = self.columns.iter().map(|(_, column)| match column {
                Column::Text(all) => csv_cell(&all[row]),
                Column::Number(all) => all[row].map_or(String::new(), |x| x.to_string()),
                Column::Count(all) => all[row].to_string(),
            });
            out.push_str(&cells.collect::<Vec<_>>().join(","));
            out.push('\n');
        }
        out
    }

    /// One object a line.
    pub fn json_lines(&self) -> String {
        let mut out = String::new();
        for row in 0..self.rows() {
            let cells = self.columns.iter().map(|(name, column)| {
                let value = match column {
                    Column::Text(all) => json!(all[row]),
                    Column::Number(all) => json!(all[row]),
                    Column::Count(all) => json!(all[row]),
                };
                ((*name).to_string(), value)
            });
            out.push_str(&Value::Object(cells.collect::<Map<String, Value>>()).to_string());
            out.push('\n');
        }
        out
    }

    /// A Parquet file.
    ///
    /// # Errors
    /// A build without the feature `parquet`, or a defect of ours.
    #[cfg(feature = "parquet")]
    pub fn parquet(&self) -> Result<Vec<u8>, Error> {
        use std::sync::Arc;

        use parquet::basic::{ConvertedType, Repetition, Type as Physical};
        use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
        use parquet::file::properties::WriterProperties;
        use parquet::file::writer::SerializedFileWriter;
        use parquet::schema::types::Type;

        let wrong = |error: parquet::errors::ParquetError| Error::internal(format!("Parquet: {error}"));
        let field = |(name, column): &(&'static str, Column)| {
            let (physical, converted, repetition) = match column {
                Column::Text(_) => (Physical::BYTE_ARRAY, ConvertedType::UTF8, Repetition::REQUIRED),
                Column::Number(_) => (Physical::DOUBLE, ConvertedType::NONE, Repetition::OPTIONAL),
                Column::Count(_) => (Physical::INT64, ConvertedType::NONE, Repetition::REQUIRED),
            };
            let built = Type::primitive_type_builder(name, physical);
            built.with_repetition(repetition).with_converted_type(converted).build().map(Arc::new)
        };
        let fields = self.columns.iter().map(field).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
        let schema = Type::group_type_builder("results").with_fields(fields).build().map_err(wrong)?;
        let properties = WriterProperties::builder().set_created_by("sandtable".into()).build();
        let mut bytes = Vec::new();
        let mut file = SerializedFileWriter::new(&mut bytes, Arc::new(schema), Arc::new(properties)).map_err(wrong)?;
        let mut group = file.next_row_group().map_err(wrong)?;
        for (_, column) in &self.columns {
            let Some(mut writer) = group.next_column().map_err(wrong)? else { break };
            match column {
                Column::Text(all) => {
                    let values: Vec<ByteArray> = all.iter().map(|text| ByteArray::from(text.as_str())).collect();
                    writer.typed::<ByteArrayType>().write_batch(&values, None, None).map_err(wrong)?;
                }
                Column::Number(all) => {
                    let values: Vec<f64> = all.iter().flatten().copied().collect();
                    let levels: Vec<i16> = all.iter().map(|value| i16::from(value.is_some())).collect();
                    writer.typed::<DoubleType>().write_batch(&values, Some(&levels), None).map_err(wrong)?;
                }
                Column::Count(all) => {
                    let values: Vec<i64> = all.iter().map(|count| *count as i64).collect();
                    writer.typed::<Int64Type>().write_batch(&values, None, None).map_err(wrong)?;
                }
            }
            writer.close().map_err(wrong)?;
        }
        group.close().map_err(wrong)?;
        file.close().map_err(wrong)?;
        Ok(bytes)
    }

    /// A Parquet file.
    ///
    /// # Errors
    /// Always: this build can't.
    #[cfg(not(feature = "parquet"))]
    pub fn parquet(&self) -> Result<Vec<u8>, Error> {
        let error = Error::usage("this build writes no Parquet");
        Err(error.hint("build with `--features parquet`; CSV and JSON Lines are always there"))
    }
}

/// The results of a plan's cells that the store has.
///
/// # Errors
/// A file of the store that can't be read.
pub fn frame(plan: &Plan, store: &Store, rows: Rows) -> Result<Frame, Error> {
    let there: Vec<_> = plan.cells.iter().filter(|cell| store.has(&cell.id) && !store.has_failed(&cell.id)).collect();
    let (mut labels, mut variants, mut seeds, mut ids) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut own: Vec<(&'static str, Column)> = Vec::new();
    let mut repeat = |cell: &crate::plan::Cell, times: usize| {
        for _ in 0..times {
            labels.push(cell.label.clone());
            variants.push(cell.variant_text());
            seeds.push(cell.seed);
            ids.push(cell.id.clone());
        }
    };
    match rows {
        Rows::Cells => {
            let names: Vec<&'static str> = metric::names().collect();
            let mut values: Vec<Vec<Option<f64>>> = vec![Vec::new(); names.len()];
            for cell in &there {
                let Some(summary) = results::summary(store, &cell.id)? else { continue };
                repeat(cell, 1);
                for (name, column) in names.iter().zip(&mut values) {
                    let value = metric::find(name).map_or(f64::NAN, |known| known.of(&summary));
                    column.push((!value.is_nan()).then_some(value));
                }
            }
            own.extend(names.into_iter().zip(values).map(|(name, values)| (name, Column::Number(values))));
        }
        Rows::Jobs => {
            let (mut names, mut outcomes) = (Vec::new(), Vec::new());
            let mut numbers: [Vec<Option<f64>>; 5] = Default::default();
            let mut counts: [Vec<u64>; 2] = Default::default();
            for cell in &there {
                let all = results::jobs(store, &cell.id)?;
                repeat(cell, all.len());
                for row in all {
                    let values = [Some(row.submit_s), row.first_start_s, row.end_s, Some(row.held_s), row.jct()];
                    numbers.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
                    counts[0].push(u64::from(row.gpus));
                    counts[1].push(row.preemptions);
                    names.push(row.job_id);
                    outcomes.push(row.outcome);
                }
            }
            own.push(("job_id", Column::Text(names)));
            let titles = ["submit_s", "first_start_s", "end_s", "held_s", "jct_s"];
            own.extend(titles.into_iter().zip(numbers).map(|(name, values)| (name, Column::Number(values))));
            own.extend(["gpus", "preemptions"].into_iter().zip(counts).map(|(name, all)| (name, Column::Count(all))));
            own.push(("outcome", Column::Text(outcomes)));
        }
        Rows::Stays => {
            let (mut names, mut from, mut to, mut gpus) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            for cell in &there {
                let all = results::stays(store, &cell.id)?;
                repeat(cell, all.len());
                for stay in all {
                    from.push(Some(stay.from));
                    to.push(Some(stay.to));
                    gpus.push(crate::execute::ranges(&stay.gpus));
                    names.push(stay.job);
                }
            }
            own.push(("job_id", Column::Text(names)));
            own.push(("from_s", Column::Number(from)));
            own.push(("to_s", Column::Number(to)));
            own.push(("gpus", Column::Text(gpus)));
        }
    }
    let mut columns = vec![
        ("policy", Column::Text(labels)),
        ("variant", Column::Text(variants)),
        ("seed", Column::Count(seeds)),
        ("cell", Column::Text(ids)),
    ];
    columns.extend(own);
    Ok(Frame { columns })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Frame {
        Frame {
            columns: vec![
                ("name", Column::Text(vec!["a,b".into(), "ü".into()])),
                ("x", Column::Number(vec![Some(0.1), None])),
                ("n", Column::Count(vec![3, 1 << 52])),
            ],
        }
    }

    #[test]
    fn rows_are_the_same_in_every_format() {
        assert_eq!(small().csv(), "name,x,n\n\"a,b\",0.1,3\nü,,4503599627370496\n");
        let lines = "{\"n\":3,\"name\":\"a,b\",\"x\":0.1}\n{\"n\":4503599627370496,\"name\":\"ü\",\"x\":null}\n";
        assert_eq!(small().json_lines(), lines);
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn a_parquet_file_reads_back_as_it_was() {
        use parquet::file::reader::{FileReader, SerializedFileReader};
        use parquet::record::RowAccessor;
        let bytes = small().parquet().expect("a file");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.parquet");
        std::fs::write(&path, bytes).expect("written");
        let reader = SerializedFileReader::new(std::fs::File::open(path).expect("a file")).expect("Parquet");
        let rows: Vec<_> = reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row")).collect();
        assert_eq!(
            (rows[0].get_string(0).expect("text").as_str(), rows[0].get_double(1).expect("a number")),
            ("a,b", 0.1)
        );
        assert!(rows[1].get_double(1).is_err(), "nothing is known of it");
        assert_eq!(rows[1].get_long(2).expect("a count"), 1 << 52);
    }
}
