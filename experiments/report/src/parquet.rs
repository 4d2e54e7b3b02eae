//! A table as a Parquet file.

use sandtable_core::error::Error;
use sandtable_core::frame::Frame;

/// A table as a Parquet file.
///
/// # Errors
/// A build without the feature `parquet`, or a defect of ours.
#[cfg(feature = "parquet")]
pub fn parquet(frame: &Frame) -> Result<Vec<u8>, Error> {
    use std::sync::Arc;

    use parquet::basic::{ConvertedType, Repetition, Type as Physical};
    use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::types::Type;

    use sandtable_core::frame::{ColumnKind, Value};

    let wrong = |error: parquet::errors::ParquetError| Error::internal(format!("Parquet: {error}"));
    let columns: Vec<(&str, ColumnKind, Vec<&Value>)> = frame.columns().collect();
    let field = |(name, kind, _): &(&str, ColumnKind, Vec<&Value>)| {
        let (physical, converted, repetition) = match kind {
            ColumnKind::Words => (Physical::BYTE_ARRAY, ConvertedType::UTF8, Repetition::REQUIRED),
            ColumnKind::Number | ColumnKind::Estimate => (Physical::DOUBLE, ConvertedType::NONE, Repetition::OPTIONAL),
            ColumnKind::Count => (Physical::INT64, ConvertedType::NONE, Repetition::REQUIRED),
        };
        let built = Type::primitive_type_builder(name, physical);
        built.with_repetition(repetition).with_converted_type(converted).build().map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    let schema = Type::group_type_builder("results").with_fields(fields).build().map_err(wrong)?;
    let properties = WriterProperties::builder().set_created_by("sandtable".into()).build();
    let mut bytes = Vec::new();
    let mut file = SerializedFileWriter::new(&mut bytes, Arc::new(schema), Arc::new(properties)).map_err(wrong)?;
    let mut group = file.next_row_group().map_err(wrong)?;
    for (_, kind, values) in &columns {
        let Some(mut writer) = group.next_column().map_err(wrong)? else { break };
        match kind {
            ColumnKind::Words => {
                let text = |value: &&Value| match value {
                    Value::Text(text) => ByteArray::from(text.as_str()),
                    _ => ByteArray::from(""),
                };
                let values: Vec<ByteArray> = values.iter().map(text).collect();
                writer.typed::<ByteArrayType>().write_batch(&values, None, None).map_err(wrong)?;
            }
            ColumnKind::Number | ColumnKind::Estimate => {
                let known: Vec<f64> = values.iter().filter_map(|value| value.number()).collect();
                let levels: Vec<i16> = values.iter().map(|value| i16::from(value.number().is_some())).collect();
                writer.typed::<DoubleType>().write_batch(&known, Some(&levels), None).map_err(wrong)?;
            }
            ColumnKind::Count => {
                let count = |value: &&Value| if let Value::Count(count) = value { *count as i64 } else { 0 };
                let values: Vec<i64> = values.iter().map(count).collect();
                writer.typed::<Int64Type>().write_batch(&values, None, None).map_err(wrong)?;
            }
        }
        writer.close().map_err(wrong)?;
    }
    group.close().map_err(wrong)?;
    file.close().map_err(wrong)?;
    Ok(bytes)
}

/// A table as a Parquet file.
///
/// # Errors
/// Always: this build can't.
#[cfg(not(feature = "parquet"))]
pub fn parquet(_: &Frame) -> Result<Vec<u8>, Error> {
    let error = Error::usage("this build writes no Parquet");
    Err(error.hint("build with `--features parquet`; CSV and JSON Lines are always there"))
}

#[cfg(all(test, feature = "parquet"))]
mod tests {
    use super::*;
    use sandtable_core::frame::Column;

    #[test]
    fn a_parquet_file_reads_back_as_it_was() {
        use parquet::file::reader::{FileReader, SerializedFileReader};
        use parquet::record::RowAccessor;
        let mut frame = Frame::new([Column::words("name"), Column::number("x"), Column::count("n")]);
        frame.push(["a,b".into(), 0.1.into(), 3u64.into()]);
        frame.push(["ü".into(), f64::NAN.into(), (1u64 << 52).into()]);
        let bytes = parquet(&frame).expect("a file");
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
